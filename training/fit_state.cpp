#include <bit>
#include <cmath>
#include <limits>

#include <sinter/training/fit_state.h>

namespace sinter {
namespace {

// Reports are rows of doubles: their counts are far below 2^53.
constexpr std::int64_t columns = 9;

void append(std::vector<double>& rows, const EpochReport& report) {
  const Evaluation v = report.validation.value_or(Evaluation{-1, 0, {}});
  for (const double value :
       {static_cast<double>(report.epoch), static_cast<double>(report.items), report.loss,
        report.seconds, static_cast<double>(v.items), v.loss, v.accuracy.value_or(-1),
        static_cast<double>(report.skipped), static_cast<double>(report.roll_backs)}) {
    rows.push_back(value);
  }
}

std::int64_t whole(double value) {
  return std::abs(value) < 0x1p53 ? static_cast<std::int64_t>(value) : 0;
}

EpochReport report_of(const double* row) {
  EpochReport report;
  report.epoch = whole(row[0]);
  report.items = whole(row[1]);
  report.loss = row[2];
  report.seconds = row[3];
  if (row[4] >= 0) {
    report.validation = {whole(row[4]), row[5], {}};
    if (row[6] >= 0) {
      report.validation->accuracy = row[6];
    }
  }
  report.skipped = whole(row[7]);
  report.roll_backs = whole(row[8]);
  return report;
}

}  // namespace

FitState::FitState(const FitOptions& options, const DataLoader& loader, std::int64_t items)
    : epochs(options.epochs),
      batches(loader.batches()),
      seed_is_given(options.seed.has_value()),
      seed(*loader.options().seed) {
  setting = sinter::text("training on ", items, " items in ", batches, " batches of ",
                         options.accumulate > 1 ? sinter::text(options.accumulate, " times ") : "",
                         options.batch_size, options.shuffle ? ", shuffled" : ", in order",
                         options.schedule ? ", with a schedule" : ", without a schedule");
  if (options.overfit_batch) {
    setting += ", the first one alone";
  }
  if (options.max_grad_norm) {
    setting += sinter::text(", max_grad_norm ", *options.max_grad_norm);
  }
  if (options.max_grad_value) {
    setting += sinter::text(", max_grad_value ", *options.max_grad_value);
  }
  if (options.autocast) {
    setting += sinter::text(", in ", *options.autocast);
  }
}

bool FitState::note_best(BestBy by) {
  if (by == BestBy::none) {
    return false;
  }
  const Evaluation& validation = *reports.back().validation;
  check(by != BestBy::accuracy || validation.accuracy.has_value(),
        "Trainer::fit: checkpoint.best is by accuracy, and the targets are no class labels");
  const double now = by == BestBy::loss ? validation.loss : -*validation.accuracy;
  if (!(now < best)) {
    return false;
  }
  best = now;
  return true;
}

void FitState::visit_state(StateVisitor& v) {
  constexpr auto any = StateVisitor::Limits();
  auto bits = std::bit_cast<std::int64_t>(seed);
  v.number("seed", bits, seed_is_given ? bits : any.min(), seed_is_given ? bits : any.max());
  seed = std::bit_cast<std::uint64_t>(bits);
  v.number("epochs_before", epochs_before, 0, std::numeric_limits<std::uint32_t>::max());
  v.number("epochs_done", epoch, 0, epochs);
  v.number("batch", batch, 0, batches);
  v.number("base_lr", base_lr, 0, std::numeric_limits<double>::max());
  v.number("loss_sum", sums.loss);
  v.number("items", sums.items, 0);
  v.number("overflowed", sums.overflowed, 0);
  v.number("seconds", seconds, 0, 1e9);
  v.number("skipped_before", skipped_before, 0);
  v.number("best", best);
  v.number("roll_backs", roll_backs, 0);
  std::vector<double> rows;
  for (const EpochReport& report : reports) {
    append(rows, report);
  }
  v.rows("reports", rows, columns);
  reports.clear();
  for (std::size_t i = 0; i + columns <= rows.size(); i += columns) {
    reports.push_back(report_of(&rows[i]));
  }
}

}  // namespace sinter
