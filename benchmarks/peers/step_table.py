"""What mlp_step.py found, cell by cell: systems down, tasks across."""


class StepTable:
    """`rows` have system, task, and either us or problem; the first system is sinter."""

    def __init__(self, rows):
        self.rows = {(r["system"], r["task"]): r for r in rows}
        self.systems, self.tasks = (list(dict.fromkeys(r[key] for r in rows)) for key in ("system", "task"))

    def value(self, system, task, key="us"):
        """Of a result that counts, or None."""
        row = self.rows.get((system, task))
        return None if row is None or row.get("problem") else row.get(key)

    def best_peer(self, task):
        """(us, system) or None"""
        times = [(self.value(system, task), system) for system in self.systems[1:] if self.value(system, task)]
        return min(times) if times else None

    def cell(self, system, task):
        """Microseconds a step, and in brackets this divided by the best peer's."""
        us, best = self.value(system, task), self.best_peer(task)
        if us is None:
            return "" if (system, task) not in self.rows else "-"
        return f"{us:.1f}" if best is None else f"{us:.1f} ({us / best[0]:.2f})"

    def header(self):
        return ["us a step (of the best peer's)"] + self.tasks

    def body(self):
        return [[system] + [self.cell(system, task) for task in self.tasks] for system in self.systems]

    def large(self):
        """Header and body of TFLOP/s and memory, on the tasks where arithmetic is what takes the time."""
        tasks = [task for task in self.tasks if any(r.get("tflops", 0) > 100 for r in self.rows.values()
                                                    if r["task"] == task)]
        header = ["TFLOP/s, peak MiB without the data"] + tasks
        body = []
        for system in self.systems:
            cells = []
            for task in tasks:
                tflops, peak = (self.value(system, task, key) for key in ("tflops", "peak_bytes"))
                cells.append(f"{tflops:.0f}, {peak / 2**20:.0f}" if tflops and peak else
                             f"{tflops:.0f}" if tflops else "")
            if any(cells):
                body.append([system] + cells)
        return (header, body) if tasks else None

    def remarks(self):
        """Sentences: what a system does otherwise, and why a cell is empty; tasks with one text together."""
        said = {}
        for (system, task), row in self.rows.items():
            text = row.get("problem") or row.get("note")
            if text:
                said.setdefault((system, text), []).append(task)
        return [f"{system}{'' if tasks == self.tasks else ', ' + ' '.join(tasks)}: {text}"
                for (system, text), tasks in said.items()]
