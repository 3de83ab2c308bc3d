"""kgroup's own code for workers that do not have it: a zip of the modules they import."""

from __future__ import annotations

import py_compile
import site
import tempfile
import zipfile
from pathlib import Path

import kgroup

ROOT = Path(kgroup.__file__).parent

WORKERS_IMPORT = (
    "kgroup.catchup.spark.chunk_groups",
    "kgroup.catchup.spark.filtered_reader",
    "kgroup.catchup.spark.in_worker",
    "kgroup.catchup.spark.notebook",
    "kgroup.catchup.spark.source",
    "kgroup.catchup.spark.sql_job",
    "kgroup.catchup.spark.to_spark",
    "kgroup.catchup.spark.trial",
    "kgroup.settings.aws",
)
"""The modules whose functions and values are sent to workers by name."""

SHIPPED = (
    "kgroup",
    "kgroup.catchup",
    "kgroup.catchup.ledger",
    "kgroup.catchup.ledger.follow",
    "kgroup.catchup.ledger.ledger",
    "kgroup.catchup.ledger.records",
    "kgroup.catchup.ledger.runner",
    "kgroup.catchup.ledger.topic",
    "kgroup.catchup.ledger.transactional_ids",
    "kgroup.catchup.ledger.view",
    "kgroup.catchup.sinks",
    "kgroup.catchup.sinks.command",
    "kgroup.catchup.sinks.files",
    "kgroup.catchup.sinks.formats",
    "kgroup.catchup.sinks.handlers",
    "kgroup.catchup.sinks.python",
    "kgroup.catchup.sinks.run_task",
    "kgroup.catchup.sinks.spark",
    "kgroup.catchup.sinks.topic",
    "kgroup.catchup.spark",
    "kgroup.catchup.spark.chunk_groups",
    "kgroup.catchup.spark.driver",
    "kgroup.catchup.spark.failures",
    "kgroup.catchup.spark.filtered_reader",
    "kgroup.catchup.spark.in_worker",
    "kgroup.catchup.spark.kafka_source",
    "kgroup.catchup.spark.notebook",
    "kgroup.catchup.spark.running_job",
    "kgroup.catchup.spark.source",
    "kgroup.catchup.spark.sql_job",
    "kgroup.catchup.spark.to_spark",
    "kgroup.catchup.spark.trial",
    "kgroup.catchup.spark.where",
    "kgroup.catchup.spark.worker_package",
    "kgroup.catchup.worker",
    "kgroup.catchup.worker.arrow",
    "kgroup.catchup.worker.chunk_counts",
    "kgroup.catchup.worker.dead_letter_reader",
    "kgroup.catchup.worker.failure",
    "kgroup.catchup.worker.handler_pool",
    "kgroup.catchup.worker.provenance_headers",
    "kgroup.catchup.worker.rack",
    "kgroup.catchup.worker.rate_limit",
    "kgroup.catchup.worker.record_counter",
    "kgroup.catchup.worker.task_control",
    "kgroup.catchup.worker.task_ledger",
    "kgroup.catchup.worker.task_run",
    "kgroup.catchup.worker.task_spec",
    "kgroup.cluster",
    "kgroup.cluster.librdkafka",
    "kgroup.cluster.reader",
    "kgroup.cluster.reader.batches",
    "kgroup.cluster.reader.to_end",
    "kgroup.cluster.topic_admin",
    "kgroup.cluster.transactions",
    "kgroup.groups",
    "kgroup.groups.catchup",
    "kgroup.groups.catchup.chunks",
    "kgroup.groups.catchup.dead_letters",
    "kgroup.groups.catchup.delivered",
    "kgroup.groups.catchup.gap_request",
    "kgroup.groups.catchup.ledger_name",
    "kgroup.groups.catchup.model",
    "kgroup.groups.catchup.release_evidence",
    "kgroup.groups.catchup.takeover",
    "kgroup.groups.catchup.verification",
    "kgroup.groups.commit_tags",
    "kgroup.model",
    "kgroup.model.commit",
    "kgroup.model.group_log",
    "kgroup.model.json_lines",
    "kgroup.model.kafka_tools",
    "kgroup.model.numbers",
    "kgroup.model.records",
    "kgroup.model.streams_group",
    "kgroup.model.topic_partition",
    "kgroup.model.topic_settings",
    "kgroup.settings",
    "kgroup.settings.aws",
    "kgroup.settings.environment",
    "kgroup.settings.tokens",
    "kgroup.support",
    "kgroup.support.atomic_file",
    "kgroup.support.background",
    "kgroup.support.clock",
    "kgroup.support.cluster_ref",
    "kgroup.support.errors",
    "kgroup.support.hint",
    "kgroup.support.instants",
    "kgroup.support.json_types",
    "kgroup.support.package_fronts",
    "kgroup.support.quoting",
    "kgroup.support.redact",
    "kgroup.support.units",
)
"""WORKERS_IMPORT and all modules that those import; a test computes the list."""

_NAME = "kgroup.zip"


class WorkerPackage:
    """The zip in a temporary directory, from which Spark serves it until ``remove``."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="kgroup-package-")
        self.path = Path(self._directory.name) / _NAME
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as package:
            for module in SHIPPED:
                source = _source(module)
                name = source.relative_to(ROOT.parent).as_posix()
                package.write(source, name)
                # Python does not cache compiled code from a zip: each worker would compile it again. Another version of
                # Python ignores these files.
                compiled = Path(self._directory.name) / "compiled"
                mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
                py_compile.compile(str(source), str(compiled), dfile=name, doraise=True, invalidation_mode=mode)
                package.write(compiled, f"{name}c")

    def remove(self) -> None:
        """Delete the zip."""
        self._directory.cleanup()


def _source(module: str) -> Path:
    path = ROOT.parent.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def import_path() -> str:
    """The directory of kgroup for a Python process of this machine; empty if Python looks there anyway.

    kgroup.pyz unpacks itself into a ``site-packages`` that only its own process searches.
    """
    directory = str(ROOT.parent)
    return "" if directory in (*site.getsitepackages(), site.getusersitepackages()) else directory
