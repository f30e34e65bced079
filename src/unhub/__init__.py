"""Correct hubness in cross-modal vector search: fit one number per item on past queries, rank by what is left."""

TYPE_CHECKING = False  # as type checkers know it: importing typing takes longer than all the rest here

if TYPE_CHECKING:
    from unhub import training
    from unhub.correction import Bias, Plan, Rescore
    from unhub.embed.embed import Embedded, embed_images, embed_texts, embed_videos
    from unhub.embed.encoder import Encoder, load_encoder
    from unhub.evaluation.banks import BankReport, judge_bank
    from unhub.evaluation.data_studies import study_bank_size, study_bank_source, study_growth
    from unhub.evaluation.evaluate import Evaluation, evaluate
    from unhub.evaluation.hubness import Hubness, group_bias, hubness
    from unhub.evaluation.hubs import Hubs, worst_hubs
    from unhub.evaluation.relevance import Relevance
    from unhub.evaluation.report import Report, report
    from unhub.evaluation.runs import Run
    from unhub.evaluation.sampling import sample_bank
    from unhub.evaluation.seeds import OverSeeds, over_seeds
    from unhub.evaluation.sets.draws import Draws
    from unhub.evaluation.sets.evaluate import evaluate_sets
    from unhub.evaluation.sets.result import SetEvaluation
    from unhub.evaluation.studies import study_k_and_alpha, study_temperature
    from unhub.evaluation.study import Study
    from unhub.evaluation.tune import tune
    from unhub.evaluation.tuning import Tuning
    from unhub.files import load, read_draws, read_relevance, read_run, read_texts, read_vectors, save, write_draws
    from unhub.fitting import fit
    from unhub.indexes.augment import augment, augment_queries, augment_radius, augment_scores
    from unhub.model import Model
    from unhub.search import Hits, Searcher, searcher
    from unhub.similarity import Dense
    from unhub.upkeep import extend, merge, remove
    from unhub.vectors import Vectors

    __version__: str

__all__ = [
    "BankReport",
    "Bias",
    "Dense",
    "Draws",
    "Embedded",
    "Encoder",
    "Evaluation",
    "Hits",
    "Hubness",
    "Hubs",
    "Model",
    "OverSeeds",
    "Plan",
    "Relevance",
    "Report",
    "Rescore",
    "Run",
    "Searcher",
    "SetEvaluation",
    "Study",
    "Tuning",
    "Vectors",
    "__version__",
    "augment",
    "augment_queries",
    "augment_radius",
    "augment_scores",
    "embed_images",
    "embed_texts",
    "embed_videos",
    "evaluate",
    "evaluate_sets",
    "extend",
    "fit",
    "group_bias",
    "hubness",
    "judge_bank",
    "load",
    "load_encoder",
    "merge",
    "over_seeds",
    "read_draws",
    "read_relevance",
    "read_run",
    "read_texts",
    "read_vectors",
    "remove",
    "report",
    "sample_bank",
    "save",
    "searcher",
    "study_bank_size",
    "study_bank_source",
    "study_growth",
    "study_k_and_alpha",
    "study_temperature",
    "training",
    "tune",
    "worst_hubs",
    "write_draws",
]

_HOMES = {
    "correction": ("Bias", "Plan", "Rescore"),
    "embed.embed": ("Embedded", "embed_images", "embed_texts", "embed_videos"),
    "embed.encoder": ("Encoder", "load_encoder"),
    "evaluation.banks": ("BankReport", "judge_bank"),
    "evaluation.sets.draws": ("Draws",),
    "evaluation.evaluate": ("Evaluation", "evaluate"),
    "evaluation.hubness": ("Hubness", "group_bias", "hubness"),
    "evaluation.hubs": ("Hubs", "worst_hubs"),
    "evaluation.relevance": ("Relevance",),
    "evaluation.runs": ("Run",),
    "evaluation.sampling": ("sample_bank",),
    "evaluation.seeds": ("OverSeeds", "over_seeds"),
    "evaluation.data_studies": ("study_bank_size", "study_bank_source", "study_growth"),
    "evaluation.report": ("Report", "report"),
    "evaluation.sets.result": ("SetEvaluation",),
    "evaluation.sets.evaluate": ("evaluate_sets",),
    "evaluation.studies": ("study_k_and_alpha", "study_temperature"),
    "evaluation.study": ("Study",),
    "evaluation.tune": ("tune",),
    "evaluation.tuning": ("Tuning",),
    "files": ("load", "read_draws", "read_relevance", "read_run", "read_texts", "read_vectors", "save", "write_draws"),
    "fitting": ("fit",),
    "indexes.augment": ("augment", "augment_queries", "augment_radius", "augment_scores"),
    "model": ("Model",),
    "search": ("Hits", "Searcher", "searcher"),
    "similarity": ("Dense",),
    "upkeep": ("extend", "merge", "remove"),
    "vectors": ("Vectors",),
}
_FOLDERS = ("training",)  # public as a whole
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that `import unhub` and `unhub --help` stay light."""
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
        return "unknown"  # run from a checkout that is not installed
