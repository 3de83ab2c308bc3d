"""What the fields of JSON documents are annotated with: ``lag: Annotated[Count | None, "Unread records; ..."]``.

The last text is the field's meaning. Another text names its type: one of these, or a shape or an enumeration.
"""

from __future__ import annotations

from typing import Annotated

Count = Annotated[int, "count"]
Offset = Annotated[int, "offset"]
Bytes = Annotated[int, "bytes"]
Ms = Annotated[int, "ms"]
PerSecond = Annotated[float, "per second"]
Instant = Annotated[str, "instant"]
EpochMs = Annotated[int, "epoch ms"]
