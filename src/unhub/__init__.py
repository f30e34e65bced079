"""Correct hubness in cross-modal vector search: fit one number per item on past queries, and subtract it."""

TYPE_CHECKING = False  # the name type checkers know; importing typing takes longer than the rest of this file

if TYPE_CHECKING:
    from unhub import datasets, training
    from unhub.banks.judging import BankReport, judge_bank
    from unhub.banks.repeats import join_repeats
    from unhub.banks.sampling import sample_bank
    from unhub.bench.bench_files import BenchFiles, bench_files
    from unhub.bench.bench_results import BenchRun
    from unhub.bench.bench_run import bench_run
    from unhub.bench.bench_table import BenchTable, bench_table
    from unhub.correction import Bias, Plan, Rescore
    from unhub.data.draws import Draws
    from unhub.data.query_log import QueryLog
    from unhub.data.relevance import Relevance
    from unhub.data.runs import Run
    from unhub.data.similarity import Dense
    from unhub.data.vectors import Vectors
    from unhub.deploying.deploy import deploy
    from unhub.deploying.deployment import Deployment, Live
    from unhub.deploying.doctor import Diagnosis, doctor
    from unhub.deploying.kept_versions import History, activate, history, keep
    from unhub.deploying.live import drop_old, rollback, switch
    from unhub.deploying.syncing import Synced, sync
    from unhub.differences import Difference, diff
    from unhub.embed.embed import Embedded, embed_images, embed_sounds, embed_texts, embed_videos
    from unhub.embed.encoder import Encoder
    from unhub.embed.encoder_loading import load_encoder
    from unhub.evaluation.evaluate import Evaluation, evaluate
    from unhub.evaluation.group_bias import group_bias
    from unhub.evaluation.hubness import Hubness, Hubs, hubness, worst_hubs
    from unhub.files import (
        export,
        load,
        load_layout,
        read_attributes,
        read_draws,
        read_log,
        read_matrix,
        read_relevance,
        read_run,
        read_texts,
        read_vectors,
        save,
        write_draws,
    )
    from unhub.fitting import fit
    from unhub.layouts import Layout, augment, augment_queries, augment_radius, augment_scores, layout
    from unhub.logs.bank_folder import AddedLog, add_log
    from unhub.logs.clicks import ClickLabels, clicks_to_relevance
    from unhub.logs.forgetting import Forgotten, forget_queries
    from unhub.model import Model
    from unhub.multi.evaluate_sets import evaluate_sets
    from unhub.multi.results import SetEvaluation
    from unhub.reports.report import Report, report
    from unhub.search.hits import Hits
    from unhub.search.rerank import rerank
    from unhub.search.searcher import Searcher, searcher
    from unhub.stores.engines import store
    from unhub.stores.store import Store
    from unhub.studies.data_studies import study_bank_size, study_bank_source, study_growth
    from unhub.studies.occurrence_study import study_occurrences
    from unhub.studies.seeds import OverSeeds, over_seeds
    from unhub.studies.setting_studies import study_k_and_alpha, study_temperature
    from unhub.studies.study import Study
    from unhub.tuning.outcome import Tuning
    from unhub.tuning.tune import tune
    from unhub.upkeep import extend, merge, remove, replace
    from unhub.watching.ab_outcome import ABTest
    from unhub.watching.ab_test import ab_test
    from unhub.watching.watch import watch
    from unhub.watching.watched import Watch

    __version__: str

__all__ = [
    "ABTest",
    "AddedLog",
    "BankReport",
    "BenchFiles",
    "BenchRun",
    "BenchTable",
    "Bias",
    "ClickLabels",
    "Dense",
    "Deployment",
    "Diagnosis",
    "Difference",
    "Draws",
    "Embedded",
    "Encoder",
    "Evaluation",
    "Forgotten",
    "History",
    "Hits",
    "Hubness",
    "Hubs",
    "Layout",
    "Live",
    "Model",
    "OverSeeds",
    "Plan",
    "QueryLog",
    "Relevance",
    "Report",
    "Rescore",
    "Run",
    "Searcher",
    "SetEvaluation",
    "Store",
    "Study",
    "Synced",
    "Tuning",
    "Vectors",
    "Watch",
    "__version__",
    "ab_test",
    "activate",
    "add_log",
    "augment",
    "augment_queries",
    "augment_radius",
    "augment_scores",
    "bench_files",
    "bench_run",
    "bench_table",
    "clicks_to_relevance",
    "datasets",
    "deploy",
    "diff",
    "doctor",
    "drop_old",
    "embed_images",
    "embed_sounds",
    "embed_texts",
    "embed_videos",
    "evaluate",
    "evaluate_sets",
    "export",
    "extend",
    "fit",
    "forget_queries",
    "group_bias",
    "history",
    "hubness",
    "join_repeats",
    "judge_bank",
    "keep",
    "layout",
    "load",
    "load_encoder",
    "load_layout",
    "merge",
    "over_seeds",
    "read_attributes",
    "read_draws",
    "read_log",
    "read_matrix",
    "read_relevance",
    "read_run",
    "read_texts",
    "read_vectors",
    "remove",
    "replace",
    "report",
    "rerank",
    "rollback",
    "sample_bank",
    "save",
    "searcher",
    "store",
    "study_bank_size",
    "study_bank_source",
    "study_growth",
    "study_k_and_alpha",
    "study_occurrences",
    "study_temperature",
    "switch",
    "sync",
    "training",
    "tune",
    "watch",
    "worst_hubs",
    "write_draws",
]

_HOMES = {
    "correction": ("Bias", "Plan", "Rescore"),
    "embed.embed": ("Embedded", "embed_images", "embed_sounds", "embed_texts", "embed_videos"),
    "embed.encoder": ("Encoder",),
    "embed.encoder_loading": ("load_encoder",),
    "banks.judging": ("BankReport", "judge_bank"),
    "data.draws": ("Draws",),
    "data.query_log": ("QueryLog",),
    "evaluation.evaluate": ("Evaluation", "evaluate"),
    "evaluation.group_bias": ("group_bias",),
    "evaluation.hubness": ("Hubness", "Hubs", "hubness", "worst_hubs"),
    "data.relevance": ("Relevance",),
    "data.runs": ("Run",),
    "banks.repeats": ("join_repeats",),
    "banks.sampling": ("sample_bank",),
    "bench.bench_files": ("BenchFiles", "bench_files"),
    "bench.bench_results": ("BenchRun",),
    "bench.bench_run": ("bench_run",),
    "bench.bench_table": ("BenchTable", "bench_table"),
    "studies.seeds": ("OverSeeds", "over_seeds"),
    "studies.data_studies": ("study_bank_size", "study_bank_source", "study_growth"),
    "studies.occurrence_study": ("study_occurrences",),
    "reports.report": ("Report", "report"),
    "multi.results": ("SetEvaluation",),
    "multi.evaluate_sets": ("evaluate_sets",),
    "studies.setting_studies": ("study_k_and_alpha", "study_temperature"),
    "studies.study": ("Study",),
    "tuning.tune": ("tune",),
    "tuning.outcome": ("Tuning",),
    "deploying.deploy": ("deploy",),
    "deploying.deployment": ("Deployment", "Live"),
    "deploying.doctor": ("Diagnosis", "doctor"),
    "deploying.kept_versions": ("History", "activate", "history", "keep"),
    "deploying.live": ("drop_old", "rollback", "switch"),
    "deploying.syncing": ("Synced", "sync"),
    "differences": ("Difference", "diff"),
    "files": (
        "export",
        "load",
        "load_layout",
        "read_draws",
        "read_log",
        "read_matrix",
        "read_attributes",
        "read_relevance",
        "read_run",
        "read_texts",
        "read_vectors",
        "save",
        "write_draws",
    ),
    "fitting": ("fit",),
    "layouts": ("Layout", "layout", "augment", "augment_queries", "augment_radius", "augment_scores"),
    "logs.bank_folder": ("AddedLog", "add_log"),
    "logs.forgetting": ("Forgotten", "forget_queries"),
    "logs.clicks": ("ClickLabels", "clicks_to_relevance"),
    "model": ("Model",),
    "search.hits": ("Hits",),
    "search.rerank": ("rerank",),
    "search.searcher": ("Searcher", "searcher"),
    "stores.engines": ("store",),
    "stores.store": ("Store",),
    "data.similarity": ("Dense",),
    "upkeep": ("extend", "merge", "remove", "replace"),
    "data.vectors": ("Vectors",),
    "watching.ab_outcome": ("ABTest",),
    "watching.ab_test": ("ab_test",),
    "watching.watch": ("watch",),
    "watching.watched": ("Watch",),
}
_FOLDERS = ("datasets", "training")  # public as a whole
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that `import unhub` and `unhub --help` stay light."""
    if name == "__version__":
        value: object = _version()
    elif name in _FOLDERS:
        from importlib import import_module

        value = import_module(f"{__name__}.{name}")
    elif name in _HOME:
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(__name__)
    except PackageNotFoundError:
        return "unknown"  # a checkout that is not installed
