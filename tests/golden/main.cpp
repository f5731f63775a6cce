// golden_check: computes every case of a directory of reference values with sinter and says where
// the results differ.
#include <cstddef>
#include <exception>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "checks.h"
#include "golden_file.h"
#include <sinter/kernels/dispatch.h>
#include <sinter/kernels/ops.h>
#include <sinter/kernels/precision.h>
#include <sinter/runtime/device.h>
#include <sinter/runtime/error.h>

namespace golden {
namespace {

using sinter::DType;

struct Tally {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;
  std::size_t listed = 0;
  std::size_t faults = 0;  // of the files, besides their cases
  std::size_t left_out = 0;
  std::size_t inputs = 0;
};

DType parse_dtype(const std::string& name) {
  static const std::map<std::string, DType> known{{"f64", DType::float64},
                                                  {"f32", DType::float32},
                                                  {"f16", DType::float16},
                                                  {"bf16", DType::bfloat16}};
  const auto found = known.find(name);
  sinter::check(found != known.end(), "--dtype ", name, " is none of f64, f32, f16, bf16");
  return found->second;
}

sinter::Device parse_device(const std::string& name) {
  sinter::check(name == "cpu" || name == "cuda" || name.starts_with("cuda:"), "--device ", name,
                " is none of cpu, cuda, cuda:N");
  return sinter::Device::parse(name);
}

bool is_16_bit(DType dtype) { return sinter::size_of(dtype) == 2; }

void run_case(const Case& c, const Setup& setup, bool verbose, Tally& tally) {
  Report report(c, setup.dtype);
  if (!c.fault.empty()) {
    report.fail(c.fault);
  } else if (const Check check = find_check(c.op)) {
    try {
      check(c, setup, report);
      report.require_all_compared();
    } catch (const NotYet& missing) {
      std::cout << "skipped " << c.id << ": " << missing.what() << "\n";
      ++tally.skipped;
      return;
    } catch (const std::exception& error) {
      report.fail(error.what());
    }
  } else {
    std::cout << "skipped " << c.id << ": " << NotYet(c.op).what() << "\n";
    ++tally.skipped;
    return;
  }
  if (verbose) {
    for (const std::string& line : report.errors()) {
      std::cout << c.id << " " << line << "\n";
    }
  }
  for (const std::string& line : report.failures()) {
    std::cout << "failed " << c.id << " " << line << "\n";
  }
  tally.left_out += report.left_out();
  tally.inputs += report.inputs();
  ++(report.failed() ? tally.failed : tally.passed);
}

void run_group(const Group& group, const Setup& setup, bool verbose, Tally& tally) {
  tally.listed += group.listed;
  tally.faults += group.faults.size();
  for (const std::string& fault : group.faults) {
    std::cout << "failed " << group.name << ": " << fault << "\n";
  }
  // Sums and updates in 16 bits have no bound that would say much.
  const bool only_read = is_16_bit(setup.dtype) && group.name != "activations";
  for (const Case& c : group.cases) {
    if (only_read && c.fault.empty()) {
      ++tally.skipped;
      std::cout << "skipped " << c.id << ": only activations are checked in " << setup.dtype
                << "\n";
    } else {
      run_case(c, setup, verbose, tally);
    }
  }
}

// Whether all is well.
bool conclude(const Tally& tally, DType dtype) {
  if (tally.left_out > 0) {
    std::cout << tally.left_out << " of " << tally.inputs
              << " inputs of activations are no values of " << dtype << " and were left out\n";
  }
  const std::size_t run = tally.passed + tally.failed + tally.skipped;
  if (run != tally.listed) {
    std::cout << "failed: " << tally.listed << " cases are listed, but " << run << " were run\n";
  }
  if (tally.passed == 0) {
    std::cout << "failed: nothing passed\n";
  }
  const std::size_t failed = tally.failed + tally.faults;
  std::cout << tally.passed << " passed, " << failed << " failed, " << tally.skipped << " skipped"
            << std::endl;
  return failed == 0 && run == tally.listed && tally.passed > 0;
}

// What fell back to the CPU says nothing of the device: only ops that have no kernel there may.
bool ran_on(sinter::Device device) {
  bool all = true;
  for (const sinter::ops::OpInfo& op : sinter::ops::table()) {
    if (device.type == sinter::DeviceType::cuda && op.cuda && sinter::fallback_count(op.name) > 0) {
      std::cout << "FAILED: " << op.name << " ran on the CPU\n";
      all = false;
    }
  }
  return all;
}

}  // namespace
}  // namespace golden

int main(int argc, char** argv) {
  CLI::App app{"Compares sinter with reference values made by PyTorch."};
  std::string directory, device = "cpu", dtype = "f32", only;
  bool verbose = false;
  app.add_option("directory", directory, "NAME.json and NAME.safetensors of each group")
      ->required();
  app.add_option("--device", device, "cpu or cuda")->capture_default_str();
  app.add_option("--dtype", dtype, "f64, f32, f16 or bf16")->capture_default_str();
  app.add_option("--group", only, "check this group alone; else all of them");
  app.add_flag("--verbose", verbose, "say the largest error of every comparison");
  CLI11_PARSE(app, argc, argv);
  try {
    const golden::Setup setup{golden::parse_device(device), golden::parse_dtype(dtype)};
    sinter::set_fallback_policy(sinter::FallbackPolicy::silent);
    sinter::set_matmul_precision(sinter::MatmulPrecision::highest);
    const std::vector<golden::Group> groups = golden::read_directory(directory);
    std::cout << "golden_check: " << setup.dtype << " on " << setup.device << "\n";
    golden::Tally tally;
    for (const golden::Group& group : groups) {
      if (only.empty() || group.name == only) {
        golden::run_group(group, setup, verbose, tally);
      }
    }
    const bool is_on_device = golden::ran_on(setup.device);
    return golden::conclude(tally, setup.dtype) && is_on_device ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "golden_check: " << error.what() << std::endl;
    return 2;
  }
}
