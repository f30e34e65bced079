"""Correct hubness in cross-modal vector search: fit one number per item on past queries, and subtract it."""

TYPE_CHECKING = False  # the name type checkers know; importing typing takes longer than the rest of this file

if TYPE_CHECKING:
    from unhub import datasets, training
    from unhub.banks.judging import BankReport, judge_bank
    from unhub.banks.sampling import sample_bank
    from unhub.bench.bench_run import BenchRun, bench_run
    from unhub.bench.bench_table import BenchTable, bench_table
    from unhub.correction import Bias, Plan, Rescore
    from unhub.data.draws import Draws
    from unhub.data.relevance import Relevance
    from unhub.data.runs import Run
    from unhub.data.similarity import Dense
    from unhub.data.vectors import Vectors
    from unhub.deploying.deploy import deploy
    from unhub.deploying.deployment import Deployment, Live
    from unhub.deploying.doctor import Diagnosis, doctor
    from unhub.deploying.live import drop_old, rollback, switch
    from unhub.deploying.syncing import Synced, sync
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
        read_draws,
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
    from unhub.studies.seeds import OverSeeds, over_seeds
    from unhub.studies.setting_studies import study_k_and_alpha, study_temperature
    from unhub.studies.study import Study
    from unhub.tuning.outcome import Tuning
    from unhub.tuning.tune import tune
    from unhub.upkeep import extend, merge, remove

    __version__: str

__all__ = [
    "BankReport",
    "BenchRun",
    "BenchTable",
    "Bias",
    "Dense",
    "Deployment",
    "Diagnosis",
    "Draws",
    "Embedded",
    "Encoder",
    "Evaluation",
    "Hits",
    "Hubness",
    "Hubs",
    "Layout",
    "Live",
    "Model",
    "OverSeeds",
    "Plan",
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
    "__version__",
    "augment",
    "augment_queries",
    "augment_radius",
    "augment_scores",
    "bench_run",
    "bench_table",
    "datasets",
    "deploy",
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
    "group_bias",
    "hubness",
    "judge_bank",
    "layout",
    "load",
    "load_encoder",
    "load_layout",
    "merge",
    "over_seeds",
    "read_draws",
    "read_matrix",
    "read_relevance",
    "read_run",
    "read_texts",
    "read_vectors",
    "remove",
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
    "study_temperature",
    "switch",
    "sync",
    "training",
    "tune",
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
    "evaluation.evaluate": ("Evaluation", "evaluate"),
    "evaluation.group_bias": ("group_bias",),
    "evaluation.hubness": ("Hubness", "Hubs", "hubness", "worst_hubs"),
    "data.relevance": ("Relevance",),
    "data.runs": ("Run",),
    "banks.sampling": ("sample_bank",),
    "bench.bench_run": ("BenchRun", "bench_run"),
    "bench.bench_table": ("BenchTable", "bench_table"),
    "studies.seeds": ("OverSeeds", "over_seeds"),
    "studies.data_studies": ("study_bank_size", "study_bank_source", "study_growth"),
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
    "deploying.live": ("drop_old", "rollback", "switch"),
    "deploying.syncing": ("Synced", "sync"),
    "files": (
        "export",
        "load",
        "load_layout",
        "read_draws",
        "read_matrix",
        "read_relevance",
        "read_run",
        "read_texts",
        "read_vectors",
        "save",
        "write_draws",
    ),
    "fitting": ("fit",),
    "layouts": ("Layout", "layout", "augment", "augment_queries", "augment_radius", "augment_scores"),
    "model": ("Model",),
    "search.hits": ("Hits",),
    "search.rerank": ("rerank",),
    "search.searcher": ("Searcher", "searcher"),
    "stores.engines": ("store",),
    "stores.store": ("Store",),
    "data.similarity": ("Dense",),
    "upkeep": ("extend", "merge", "remove"),
    "data.vectors": ("Vectors",),
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
