"""How Java is called: small and quick to start. Measured: 2.85 s, 331 MiB become 1.3 s, 155 MiB."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kgroup.support.java_home import Java

QUICK_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k")
"""For Kafka's tools, and the beginning of a broker's flags."""

SHIPPED_TOOL_FLAGS = (
    "-Xmx256M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""What kafka-run-class.sh gives to a tool (Kafka 4.3), for benchmarks that compare with what people run."""

BROKER_FLAGS = (*QUICK_FLAGS, "-Xms64m", "-Xmx512m", "-XX:+ExitOnOutOfMemoryError")

BROKER_CLASS = "kafka.Kafka"
STORAGE_TOOL = "kafka.tools.StorageTool"


def archive_flags(archive: Path | None) -> tuple[str, ...]:
    """Use a class data archive; one that does not fit (other jars, other Java) is passed over in silence."""
    if archive is None:
        return ()
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def command(
    java: Java,
    classpath: Sequence[Path],
    main_class: str,
    *arguments: str,
    flags: Sequence[str],
    log_flag: str,
) -> list[str]:
    """The whole command line. The class path is explicit and ordered, as a class data archive demands."""
    return [
        str(java.executable),
        *flags,
        log_flag,
        "-cp",
        ":".join(map(str, classpath)),
        main_class,
        *arguments,
    ]
