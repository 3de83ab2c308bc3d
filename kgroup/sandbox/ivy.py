"""Apache Ivy, the downloader that the PySpark wheel ships: its settings, and how to start it.

kgroup names no repository. Without user settings, Ivy uses its built-in one. User settings, the first that exists is
used:

  1. ``KGROUP_IVY_SETTINGS``: an Ivy settings file (any resolvers, credentials, caches), used unchanged;
  2. ``~/.ivy2/ivysettings.xml``: likewise;
  3. ``DEFAULT_ARTIFACT_REPOSITORY``: the address of a Maven repository, a variable that Spark uses too.

Java does not read ``https_proxy`` and similar variables, so kgroup passes them as Java's properties.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

import msgspec

from kgroup.sandbox.manifest import Artifact
from kgroup.settings.environment import environment
from kgroup.support.errors import NO_PYSPARK, ConfigError, Refused
from kgroup.support.java_home import Java, with_one_collector

INSTALL_PYSPARK = "pip install pyspark"

# No POMs and no checksum files: the manifest names every jar and pins its SHA-256. Saves 34 of 39 seconds.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="repository"/>
  <resolvers>
    <ibiblio name="repository" m2compatible="true" usepoms="false" useMavenMetadata="false"
             checksums=""{root}/>
  </resolvers>
</ivysettings>
"""


def ivy_jar() -> Path:
    """The jar of Ivy in the PySpark wheel, found without importing PySpark. Raises Refused [no-pyspark]."""
    spec = find_spec("pyspark")
    for location in (spec.submodule_search_locations if spec else None) or ():
        for jar in sorted(Path(location, "jars").glob("ivy-*.jar")):
            return jar
    raise Refused(
        "the sandbox fetches Kafka once, with the Ivy in the PySpark package, and PySpark is not installed",
        code=NO_PYSPARK,
        details=("Once fetched, the sandbox runs without PySpark.",),
        hint=f"{INSTALL_PYSPARK}  (or name the libs directory of a Kafka distribution with --jars)",
    )


class IvySettings(msgspec.Struct, frozen=True):
    """The user's settings file; or None, and the text of ours."""

    file: Path | None
    text: str

    def path(self, directory: Path) -> Path:
        """The file for Ivy; ours is written into ``directory``."""
        if self.file is not None:
            return self.file
        written = directory / "ivysettings.xml"
        written.write_text(self.text, encoding="utf-8")
        return written


def ivy_settings(environment: Mapping[str, str]) -> IvySettings:
    """Find the settings as the module describes. Raises ConfigError if ``KGROUP_IVY_SETTINGS`` names no file."""
    named = environment.get("KGROUP_IVY_SETTINGS")
    if named:
        if not Path(named).is_file():
            raise ConfigError(f"KGROUP_IVY_SETTINGS names no file: {named}")
        return IvySettings(Path(named).absolute(), "")
    usual = Path(environment.get("HOME") or Path.home()) / ".ivy2" / "ivysettings.xml"
    if usual.is_file():
        return IvySettings(usual, "")
    root = environment.get("DEFAULT_ARTIFACT_REPOSITORY")
    return IvySettings(None, _SETTINGS.format(root=f" root={quoteattr(root)}" if root else ""))


def module_file(artifacts: Iterable[Artifact], name: str) -> str:
    """An Ivy module that depends on these jars only, without their own dependencies."""
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(a.organisation)} name={quoteattr(a.module)}"
        f' rev={quoteattr(a.revision)} transitive="false" conf="default->default">'
        f'<artifact name={quoteattr(a.module)} type="jar" ext="jar"/></dependency>'
        for a in artifacts
    )
    return (
        f'<ivy-module version="2.0">\n  <info organisation="kgroup" module={quoteattr(name)}/>\n'
        f'  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</ivy-module>\n"
    )


class Ivy(msgspec.Struct, frozen=True):
    """A command to run Ivy: Java, Ivy's jar, settings."""

    java: Java
    jar: Path
    settings: IvySettings

    def start(self, artifacts: Iterable[Artifact], directory: Path) -> subprocess.Popen[bytes]:
        """Start a download into ``directory``. Complete jars appear below it, at paths that Ivy chooses.

        Ivy's output goes to ``directory/ivy.log``.
        """
        directory.mkdir(parents=True)
        module = directory / "ivy.xml"
        module.write_text(module_file(artifacts, directory.name), encoding="utf-8")
        command = [
            str(self.java.executable),
            *with_one_collector(("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"), environment()),
            *proxy_flags(environment()),
            *("-cp", str(self.jar), "org.apache.ivy.Main", "-warn"),
            *("-settings", str(self.settings.path(directory)), "-cache", str(directory / "cache")),
            *("-ivy", str(module), "-confs", "default", "-types", "jar"),
        ]
        if self.settings.file is not None:  # the user's settings may place the cache elsewhere
            command += ["-retrieve", str(directory / "out" / "[artifact]-[revision].[ext]")]
        with (directory / "ivy.log").open("wb") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=directory
            )


def proxy_flags(environment: Mapping[str, str]) -> list[str]:
    """Java's properties for the proxy variables, without passwords: other users can see command lines."""
    flags: list[str] = []
    for scheme in ("http", "https"):
        address = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        parts = urlsplit(address) if address else None
        if parts and parts.hostname:
            flags += [f"-D{scheme}.proxyHost={parts.hostname}", f"-D{scheme}.proxyPort={parts.port or 80}"]
    direct = environment.get("no_proxy") or environment.get("NO_PROXY")
    if flags and direct:
        hosts = (host.strip() for host in direct.split(",") if host.strip())
        flags.append("-Dhttp.nonProxyHosts=" + "|".join(f"*{h}" if h.startswith(".") else h for h in hosts))
    return flags
