"""``--backup``: the old offsets as a file that ``reset --from-file`` reads; a pod's journal dies with the pod."""

from __future__ import annotations

import json
import sys

from kgroup.changes.options import Change
from kgroup.groups.change_plan import ChangePlan
from kgroup.groups.offset_files import ExportedGroup
from kgroup.model.envelope import envelope
from kgroup.support.atomic_file import AtomicFile
from kgroup.support.cluster_ref import ClusterRef
from kgroup.support.errors import KgroupError
from kgroup.support.json_line import plain

_STDOUT = "-"


def write_backup(how: Change, plan: ChangePlan, cluster: ClusterRef) -> None:
    """Write the offsets that the plan will change to ``--backup``; the file is complete before anything changes.

    Raises UsageError if the file is not empty, KgroupError if it cannot be written.
    """
    if how.backup is None:
        return
    read = {group.name: group for group in plan.groups}
    groups = [
        ExportedGroup.of(
            name,
            read[name].type if name in read else None,
            read[name].state if name in read else None,
            tuple((*row.tp, row.old) for row in rows),
        )
        for name, rows in plan.by_group().items()
    ]
    text = json.dumps(plain(envelope("export", cluster, groups)), indent=2) + "\n"
    if how.backup != _STDOUT:
        with AtomicFile(how.backup, "--backup") as file:
            file.write(text.encode())
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise KgroupError(f"--backup -: stdout could not be written: {error.strerror}", code="file") from error
