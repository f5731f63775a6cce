"""Writes tables of results into a page of docs, between two marker lines; all else in it stays as it is."""
import pathlib
import sys

DOCS = pathlib.Path(__file__).parents[1] / "docs"


def markdown_table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def versions_text(versions):
    """"sinter 0.1.0, torch 2.11.0": of sinter's line the first part alone."""
    return ", ".join([versions["sinter"].split(",")[0]]
                     + [f"{name} {version}" for name, version in versions.items() if name != "sinter"])


def fill(page, name, block):
    """Puts `block` where the page says that benchmarks/NAME/report.py writes."""
    begin, end = f"<!-- {name}: what follows is written by benchmarks/{name}/report.py -->", f"<!-- {name}: end -->"
    text = page.read_text()
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        sys.exit(f"report.py: {page} must hold each of these lines once, in this order:\n{begin}\n{end}")
    before, rest = text.split(begin)
    page.write_text(f"{before}{begin}\n\n{block}\n\n{end}{rest.split(end)[1]}")
    print(f"report.py: wrote {page}")
