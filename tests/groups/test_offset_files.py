"""Files of offsets: every form that is read, and every line that is not."""

from __future__ import annotations

import json
import random
from contextlib import suppress

import pytest
import yaml

from kgroup.groups.offset_files import KIND, ExportedGroup, FileRow, parse_offsets
from kgroup.model.commit import Commit
from kgroup.support.errors import UsageError
from kgroup.support.json_line import plain
from tests.helpers.places import DATA

LONG = "orders-by-region-and-customer"
ONE = {(None, LONG, 0): 17, (None, LONG, 1): 20, (None, "clicks", 0): 3}
SEVERAL = {
    ("order-service", LONG, 0): 17,
    ("order-service", LONG, 1): 20,
    ("order-service", "clicks", 0): 3,
    ("order-service-of-the-blue-half", LONG, 0): 4,
    ("order-service-of-the-blue-half", LONG, 1): 0,
    ("billing, nightly", "clicks", 0): 5,
    ("4711", "clicks", 0): 1,
}
MOST = 2**63 - 1
NAMES = ("plain", "with,comma", ' lead "and" trail ', '"', "new\nline", "cr\r", "crlf\r\n", "#x", "7", "заказы", "'")


def row(
    topic: str,
    partition: int,
    offset: int | None,
    group: str | None = None,
    line: int = 0,
    epoch: int | None = None,
    metadata: str | None = None,
) -> FileRow:
    return FileRow(topic, partition, offset, epoch, metadata, group, line)


def offsets(text: str) -> dict[tuple[str | None, str, int], int | None]:
    return {found.key: found.offset for found in parse_offsets(text, "f")}


def complaints(text: str) -> list[str]:
    """The faults that are named, of a file called ``f``."""
    with pytest.raises(UsageError) as caught:
        parse_offsets(text, "f")
    return [caught.value.message, *caught.value.details]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("kafka-4.3.1-one-group.csv", ONE),
        ("kafka-4.3.1-several-groups.csv", SEVERAL),
        ("kafka-20524-share-group.csv", ONE),
        ("with-header-one-group.csv", ONE),
        ("with-header-several-groups.csv", SEVERAL),
    ],
)
def test_files_of_other_tools(file: str, expected: dict[tuple[str | None, str, int], int]) -> None:
    text = (DATA / file).read_text(encoding="utf-8")
    assert offsets(text) == expected
    assert offsets("\ufeff" + text.replace("\n", "\r\n")) == expected, "as an editor on Windows leaves it"
    assert offsets(text.rstrip("\n")) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7,0,5\n", row("7", 0, 5, line=1)),
        ("1,2,3,4\n", row("2", 3, 4, "1", 1)),
        ("partition,0,5\n", row("partition", 0, 5, line=1)),
        ("group,topic,0,5\n", row("topic", 0, 5, "group", 1)),
        ("topic,partition,0,5\n", row("partition", 0, 5, "topic", 1)),
        ('"",t,0,5\n', row("t", 0, 5, "", 1)),
        ("topic,t,0,5\n", row("t", 0, 5, "topic", 1)),
        ("[g,t,0,5\n", row("t", 0, 5, "[g", 1)),
        ("kind: x,t,0,5\n", row("t", 0, 5, "kind: x", 1)),
        ('"{""kind"": 1}",t,0,5\n', row("t", 0, 5, '{"kind": 1}', 1)),
        (f"t,{2**31 - 1},{MOST}", row("t", 2**31 - 1, MOST, line=1)),
        ('"t","0","007"', row("t", 0, 7, line=1)),
        ("'t',0,5", row("'t'", 0, 5, line=1)),
        ('t"x,0,1\n', row('t"x', 0, 1, line=1)),
    ],
)
def test_the_columns_decide(text: str, expected: FileRow) -> None:
    assert parse_offsets(text, "f") == (expected,)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("orders,0,17\norders,1,x\n", "f:2: offset 'x' is not a whole number from 0 on"),
        ("orders,0,-1\n", "f:1: offset '-1' is not a whole number from 0 on"),
        ("orders,0,1.5\n", "f:1: offset '1.5' is not a whole number from 0 on"),
        ("orders,0, 1\n", "f:1: offset ' 1' is not a whole number from 0 on"),
        ("orders,0,1_000\n", "f:1: offset '1_000' is not a whole number from 0 on"),
        ("orders,0,٣\n", "f:1: offset '٣' is not a whole number from 0 on"),
        ("orders,0,\n", "f:1: offset '' is not a whole number from 0 on"),
        (f"orders,0,{MOST + 1}\n", f"f:1: offset is above {MOST}"),
        (f"orders,0,{'9' * 5000}\n", f"f:1: offset is above {MOST}"),
        ("orders,-1,1\n", "f:1: partition '-1' is not a whole number from 0 on"),
        (f"orders,{2**31},1\n", f"f:1: partition is above {2**31 - 1}"),
        ('"or,ders",x,1\n', "f:1: partition 'x' is not a whole number from 0 on"),
        ('"a\nb",t,0,1\ng,t,zero,1\n', "f:3: partition 'zero' is not a whole number from 0 on"),
        (",0,1\n", "f:1: topic is empty"),
        (",t,0,1\n", "f:1: group is empty"),
        ('"g",t,0,1\n,t,0,1\n', "f:2: group is empty"),
        ("orders,1\n", "f:1: 2 columns, not 3 or 4"),
        ("a,b,c,0,1\n", "f:1: 5 columns, not 3 or 4"),
        ("t,0,1\n# back to noon\n", "f:2: 1 column, not 3 as on line 1"),
        ("t,0,1\ng,t,1,1\n", "f:2: 4 columns, not 3 as on line 1"),
        ("g,t,1,1\nt,0,1\n", "f:2: 3 columns, not 4 as on line 1"),
        ("TOPIC PARTITION NEW-OFFSET\n", "f:1: 1 column, not 3 or 4"),
        ("topic,partition\nt,0\n", "f:1: the header has no column offset"),
        ("topic,topic,partition,offset\nt,t,0,1\n", "f:1: the header has two columns topic"),
        ('t,0,1\n"t,1,1\nt,2,1\n', "f:2: a quote that begins on this line is never closed"),
        ('"a""b,0,1\n', "f:1: a quote that begins on this line is never closed"),
        ('"t"x,0,1\n', "f:1: text after a closing quote"),
        ('t,0,1\n"g\n"x,t,1,1\n', "f:3: text after a closing quote"),
        ("t,0,1\rt,1,1\n", "f:1: a carriage return that ends no line"),
        ("t,0,1\nt,\0,1\n", "f:2: a NUL byte: the file is not UTF-8 text"),
        ("t,0,1\nu,0,1\n\nt,0,1\n", "f:4: t:0 is already on line 1"),
        ("g,t,0,1\nh,t,0,1\ng,t,0,2\n", "f:3: t:0 of group 'g' is already on line 1"),
        ("", "f: the file has no offsets"),
        ("\n\r\n", "f: the file has no offsets"),
        ("\ufeff", "f: the file has no offsets"),
        ("topic,partition,offset\n", "f: the file has no offsets"),
    ],
)
def test_a_bad_line_is_named(text: str, fault: str) -> None:
    assert complaints(text) == [fault]


def test_the_first_bad_lines_are_named_together() -> None:
    text = "".join(f"t,{number},x\n" for number in range(7)) + '"t"x,9,9\nt,7,1\n'
    found = complaints(text)
    assert [line.partition(" ")[0] for line in found[:5]] == [f"f:{number}:" for number in range(1, 6)]
    assert found[5:] == ["and 3 more"]


def test_a_quote_that_swallows_a_large_file() -> None:
    found = complaints('t,0,1\n"' + "t,1,1\n" * 100_000)
    assert found[0] == "f:2: a quote that begins on this line is never closed"


def test_a_bad_line_does_not_hide_the_next() -> None:
    found = complaints('t\rx,0,1\n"t"x,1,1\nt,2,1\nt,3,x\n')
    assert [line.split(" ")[0] for line in found] == ["f:1:", "f:2:", "f:4:"]


def test_csv_of_export_and_of_describe() -> None:
    export = 'group,topic,partition,offset,leader_epoch,metadata\ng,t,0,5,3,\ng,t,1,6,,"a,b"\n'
    assert parse_offsets(export, "f") == (
        row("t", 0, 5, "g", 2, epoch=3, metadata=""),
        row("t", 1, 6, "g", 3, metadata="a,b"),
    )
    head = "group,topic,partition,committed,leader_epoch,metadata,log_start,lag,status,error\n"
    assert parse_offsets(head + "g,t,0,5,3,,0,1,,\ng,t,1,,,,0,,,\n", "f") == (
        row("t", 0, 5, "g", 2, epoch=3, metadata=""),
        row("t", 1, None, "g", 3),
    )
    assert complaints(head + "g,t,1,,,,,,,not-authorized\n") == [
        "f:2: the offset could not be read when the file was written: 'not-authorized'"
    ]
    assert complaints(export.replace("5", "")) == ["f:2: offset '' is not a whole number from 0 on"]


GROUPS = (
    ExportedGroup.of(
        "g",
        "classic",
        "Empty",
        (("t", 0, Commit(5, 3, "")), ("t", 1, Commit(6, None, 'a "note",\nof two lines')), ("u", 0, None)),
    ),
    ExportedGroup.of("7", "consumer", "Stable", (("t", 0, Commit(MOST, 0, "é\u2028")),)),
    ExportedGroup.of("2024-01-01", None, None, ()),
)
ROWS = (
    row("t", 0, 5, "g", epoch=3, metadata=""),
    row("t", 1, 6, "g", metadata='a "note",\nof two lines'),
    row("u", 0, None, "g"),
    row("t", 0, MOST, "7", epoch=0, metadata="é\u2028"),
)


def envelope(*data: object, kind: str = KIND) -> dict[str, object]:
    return {"kind": kind, "cluster": None, "executed": False, "data": list(data), "errors": []}


@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_json_and_yaml_keep_everything(bom: str) -> None:
    document = envelope(*map(plain, GROUPS))
    assert parse_offsets(bom + json.dumps(document), "f") == ROWS
    assert parse_offsets(bom + json.dumps(document, indent=2, ensure_ascii=False), "f") == ROWS
    assert parse_offsets(bom + yaml.safe_dump(document, sort_keys=False, allow_unicode=True), "f") == ROWS
    assert parse_offsets(bom + "---\n# kept for the blue half\n" + yaml.safe_dump(document), "f") == ROWS


def test_a_plain_list_as_kcl_has_it() -> None:
    plain = [{"topic": "foo", "partition": 0, "offset": 100}, {"topic": "foo", "partition": 1, "offset": 7}]
    assert parse_offsets(json.dumps(plain), "f") == (row("foo", 0, 100), row("foo", 1, 7))


def of(**changed: object) -> str:
    entry: dict[str, object] = {"topic": "t", "partition": 0, "offset": 5} | changed
    return json.dumps(envelope({"group": "g", "offsets": [{k: v for k, v in entry.items() if v != "absent"}]}))


AT = "f:data[0].offsets[0]"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (of(offset="5"), f"{AT}.offset: expected `int | null`, got `str`"),
        (of(offset=5.0), f"{AT}.offset: expected `int | null`, got `float`"),
        (of(offset=True), f"{AT}.offset: expected `int | null`, got `bool`"),
        (of(offset=-2), f"{AT}.offset: expected `int` >= 0"),
        (of(offset=MOST + 1), f"{AT}.offset: expected `int` <= {MOST}"),
        (of(offset="absent"), f"{AT}: object missing required field `offset`"),
        (of(partition=-1), f"{AT}.partition: expected `int` >= 0"),
        (of(partition=None), f"{AT}.partition: expected `int`, got `null`"),
        (of(topic=""), f"{AT}.topic: expected `str` of length >= 1"),
        (of(topic=7), f"{AT}.topic: expected `str`, got `int`"),
        (of(topic="\ud800"), f"{AT}: '\\ud800' is not UTF-8"),
        (of(leader_epoch=-1), f"{AT}.leader_epoch: expected `int` >= 0"),
        (of(metadata=5), f"{AT}.metadata: expected `str | null`, got `int`"),
        (json.dumps(envelope({"offsets": []})), "f:data[0]: object missing required field `group`"),
        (json.dumps(envelope({"group": "g"})), "f:data[0]: object missing required field `offsets`"),
        (json.dumps(envelope("g")), "f:data[0]: expected `object`, got `str`"),
        (json.dumps(envelope({"group": "g", "offsets": [5]})), f"{AT}: expected `object`, got `int`"),
        (json.dumps({"kind": KIND, "data": {}}), "f:data: expected `array`, got `object`"),
        (json.dumps(envelope()), "f: the file has no offsets"),
        ("[]", "f: the file has no offsets"),
        ("[1]", "f:[0]: expected `object`, got `int`"),
        ("{}", f"f:kind: None is not '{KIND}', which kgroup export -o json writes"),
        ("kind: kgroup.export/v2\ndata: []", f"f:kind: 'kgroup.export/v2' is not '{KIND}', which "),
        ('{"kind": "kgroup.export/v1",\n "data": [}', "f:2:11: not JSON: Expecting value"),
        ("[" * 100_000, "f: not JSON: "),
        ("kind: kgroup.export/v1\ndata: [\n", "f:3:1: not YAML: "),
        (f"kind: {KIND}\ndata:\n- {{group: 2024-01-01, offsets: []}}\n", "f:data[0].group: expected `str`, got `date`"),
    ],
)
def test_a_bad_document_is_named(text: str, fault: str) -> None:
    assert complaints(text)[0].startswith(fault)


def test_the_same_partition_twice_in_a_document() -> None:
    group = {"group": "g", "offsets": [{"topic": "t", "partition": 0, "offset": 5}]}
    (found,) = complaints(json.dumps(envelope(group, group)))
    assert found == "f:data[1].offsets[0]: t:0 of group 'g' is already on data[0].offsets[0]"


def test_a_hundred_thousand_rows() -> None:
    text = "".join(f"g{n % 1000},orders,{n},{n}\n" for n in range(100_000))
    assert len(parse_offsets(text, "f")) == 100_000


def test_nothing_that_is_read_is_a_traceback() -> None:
    """Pieces of all forms in any order: rows, or a UsageError."""
    pieces = ['"', ",", "\n", "\r\n", "t", "g", "0", "1,2", "-1", "{", "}", "[", "]", ":", " ", "- ", "&a", "*a", "!!x"]
    pieces += ["kind: ", KIND, "topic", "partition", "offset", "group,topic,partition,committed", "\ufeff", "#"]
    chance = random.Random(4)
    for _ in range(3000):
        text = "".join(chance.choices(pieces, k=chance.randint(1, 14)))
        with suppress(UsageError):
            assert parse_offsets(text, "f"), text


@pytest.mark.parametrize(("as_of", "source"), [(None, "coordinator"), ("2026-01-01T00:00:00Z", "log")])
def test_a_document_says_where_its_offsets_are_from(as_of: str | None, source: str) -> None:
    document = ExportedGroup.of("svc", "classic", "Empty", (), as_of=as_of)
    assert (document.source, document.offsets_at) == (source, as_of)
