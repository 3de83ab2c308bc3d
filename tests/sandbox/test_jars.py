"""Fetching, with the real Ivy and a small repository in a directory."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from kgroup.sandbox import ivy
from kgroup.sandbox.distribution import user_distribution
from kgroup.sandbox.jars import are_complete, balanced_shares, fetch
from kgroup.sandbox.manifest import Artifact, Manifest, parse_manifest, sandbox_manifest
from kgroup.support.errors import ConfigError, Refused, SandboxError
from kgroup.support.java_home import find_java
from tests.helpers.sandbox_reporters import Recorder


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    """Three jars, in a Maven repository at ``tmp_path / "repository"``."""
    return Manifest(tuple(_publish(tmp_path / "repository", name) for name in ("kafka_2.13", "alpha", "beta")))


@pytest.fixture
def local_ivy(tmp_path: Path) -> ivy.Ivy:
    """Ivy with the repository named as Spark's users name theirs."""
    settings = ivy.ivy_settings(
        {"HOME": str(tmp_path), "DEFAULT_ARTIFACT_REPOSITORY": (tmp_path / "repository").as_uri()}
    )
    return ivy.Ivy(find_java(os.environ), ivy.ivy_jar(), settings)


def _publish(repository: Path, module: str) -> Artifact:
    content = f"the jar of {module}".encode() * 50
    jar = repository / "org" / "example" / module / "1.0" / f"{module}-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(content)
    return Artifact("org.example", module, "1.0", len(content), hashlib.sha256(content).hexdigest())


def _jar(repository: Path, module: str) -> Path:
    return next(repository.rglob(f"{module}-1.0.jar"))


def test_fetch(tmp_path: Path, manifest: Manifest, local_ivy: ivy.Ivy, reporter: Recorder) -> None:
    jars = tmp_path / "jars"
    fetch(manifest, jars, local_ivy, reporter)
    assert are_complete(manifest, jars)
    assert sorted(path.name for path in jars.iterdir()) == sorted(a.file_name for a in manifest.artifacts)
    assert reporter.counts[-1] == 3
    assert not jars.with_name("jars.part").exists()


def test_what_is_whole_is_kept_and_the_rest_comes_again(
    tmp_path: Path, manifest: Manifest, local_ivy: ivy.Ivy, reporter: Recorder
) -> None:
    part = tmp_path / "jars.part"
    in_cache = part / "work-0" / "share-0" / "cache"
    in_cache.mkdir(parents=True)
    broker, alpha, beta = manifest.artifacts
    _jar(tmp_path / "repository", alpha.module).rename(part / alpha.file_name)  # whole, and no more to be had
    _jar(tmp_path / "repository", beta.module).rename(in_cache / beta.file_name)  # whole, still where Ivy put it
    (part / broker.file_name).write_bytes(b"x" * broker.size_bytes)  # as long as it ought to be, and damaged
    fetch(manifest, tmp_path / "jars", local_ivy, reporter)
    assert all(a.is_whole(tmp_path / "jars" / a.file_name) for a in manifest.artifacts)


def test_wrong_checksum_names_the_jar_and_nothing_is_put_in_place(
    tmp_path: Path, manifest: Manifest, local_ivy: ivy.Ivy, reporter: Recorder
) -> None:
    alpha = manifest.artifacts[1]
    _jar(tmp_path / "repository", alpha.module).write_bytes(b"y" * alpha.size_bytes)
    with pytest.raises(SandboxError, match=r"1 of 3 .*alpha-1\.0\.jar \(wrong checksum\)"):
        fetch(manifest, tmp_path / "jars", local_ivy, reporter)
    assert not (tmp_path / "jars").exists()


def test_missing_jar_is_told_with_ivys_words(
    tmp_path: Path, manifest: Manifest, local_ivy: ivy.Ivy, reporter: Recorder
) -> None:
    _jar(tmp_path / "repository", "beta").unlink()
    with pytest.raises(SandboxError, match=r"beta-1\.0\.jar \(missing\)") as raised:
        fetch(manifest, tmp_path / "jars", local_ivy, reporter)
    assert any("org.example#beta;1.0" in line for line in raised.value.details)


@pytest.mark.soak
def test_a_jar_that_disappeared_makes_the_directory_unwhole(
    tmp_path: Path, manifest: Manifest, local_ivy: ivy.Ivy, reporter: Recorder
) -> None:
    jars = tmp_path / "jars"
    fetch(manifest, jars, local_ivy, reporter)
    (jars / "alpha-1.0.jar").unlink()
    assert not are_complete(manifest, jars)
    fetch(manifest, jars, local_ivy, reporter)
    assert are_complete(manifest, jars)


def test_the_users_own_settings(tmp_path: Path, manifest: Manifest, reporter: Recorder) -> None:
    """A corporate mirror: its own resolver, its own cache, POMs in use."""
    file = tmp_path / "corporate.xml"
    file.write_text(
        f"""<ivysettings>
          <settings defaultResolver="mirror"/>
          <caches><cache name="own" basedir="{tmp_path / "corporate-cache"}"/></caches>
          <resolvers>
            <ibiblio name="mirror" m2compatible="true" cache="own" root="{(tmp_path / "repository").as_uri()}"/>
          </resolvers>
        </ivysettings>"""
    )
    settings = ivy.ivy_settings({"HOME": str(tmp_path), "KGROUP_IVY_SETTINGS": str(file)})
    assert settings.file == file
    fetch(manifest, tmp_path / "jars", ivy.Ivy(find_java(os.environ), ivy.ivy_jar(), settings), reporter)
    assert are_complete(manifest, tmp_path / "jars")
    assert (tmp_path / "corporate-cache").exists()


def test_order_of_settings(tmp_path: Path) -> None:
    own = ivy.ivy_settings({"HOME": str(tmp_path)})
    assert own.file is None
    assert "root=" not in own.text
    mirror = {"HOME": str(tmp_path), "DEFAULT_ARTIFACT_REPOSITORY": "https://mirror.example/maven"}
    assert 'root="https://mirror.example/maven"' in ivy.ivy_settings(mirror).text
    usual = tmp_path / ".ivy2" / "ivysettings.xml"
    usual.parent.mkdir()
    usual.touch()
    assert ivy.ivy_settings(mirror).file == usual
    with pytest.raises(ConfigError, match="names no file"):
        ivy.ivy_settings({"KGROUP_IVY_SETTINGS": str(tmp_path / "none.xml")})


def test_proxies_are_handed_on_without_passwords() -> None:
    flags = ivy.proxy_flags({"https_proxy": "http://user:secret@proxy:3128", "no_proxy": "localhost,.corp"})
    assert flags == ["-Dhttps.proxyHost=proxy", "-Dhttps.proxyPort=3128", "-Dhttp.nonProxyHosts=localhost|*.corp"]


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ivy, "find_spec", lambda name: None)
    with pytest.raises(Refused, match="PySpark is not installed") as raised:
        ivy.ivy_jar()
    assert raised.value.code == "no-pyspark"
    assert "pip install pyspark" in (raised.value.hint or "")


def test_pyspark_is_found_and_not_imported() -> None:
    code = "import sys; from kgroup.sandbox import ivy; print(ivy.ivy_jar().name, 'pyspark' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"ivy-[\d.]+\.jar False\n", done.stdout)


def test_shares_take_about_the_same_time() -> None:
    shares = balanced_shares(sandbox_manifest().artifacts, 4)
    sizes = [sum(a.size_bytes + 400_000 for a in share) for share in shares]
    assert sum(map(len, shares)) == 37
    assert max(sizes) < 1.3 * min(sizes)
    assert balanced_shares([], 4) == []


def test_manifest() -> None:
    manifest = sandbox_manifest()
    assert manifest.kafka_version == "4.4.0"
    assert len({a.file_name for a in manifest.artifacts}) == 37
    assert all(len(a.sha256) == 64 for a in manifest.artifacts)
    assert parse_manifest("# comment\n\norg mod 1 2 ff\n").artifacts == (Artifact("org", "mod", "1", 2, "ff"),)


def test_size_alone_is_not_whole(tmp_path: Path, manifest: Manifest) -> None:
    artifact = manifest.artifacts[0]
    path = tmp_path / "some.jar"
    path.write_bytes(b"z" * artifact.size_bytes)
    assert artifact.has_size(path)
    assert not artifact.is_whole(path)
    assert not replace(artifact, size_bytes=1).has_size(path)
    assert not artifact.has_size(tmp_path / "none")


def test_a_distribution_that_is_already_here(tmp_path: Path) -> None:
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    for name in ("kafka_2.13-4.4.0.jar", "kafka_2.13-4.3.1-sources.txt", "alpha.jar"):
        (libs / name).touch()
    found = user_distribution(tmp_path / "kafka", tmp_path / "cache", find_java(os.environ))
    assert found.version == "4.4.0"
    assert [jar.name for jar in found.classpath] == ["alpha.jar", "kafka_2.13-4.4.0.jar"]
    with pytest.raises(Refused, match="no Kafka broker"):
        user_distribution(tmp_path / "cache", tmp_path / "cache", find_java(os.environ))
