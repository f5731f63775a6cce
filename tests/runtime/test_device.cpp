// Picking a device, and what the build says of itself.

#include <cstdio>
#include <iostream>
#include <string>

#include <doctest/doctest.h>

#include "child.h"
#include "sentence.h"
#include <sinter/runtime/backend.h>
#include <sinter/runtime/build_info.h>
#include <sinter/runtime/cpu_path.h>
#include <sinter/runtime/device.h>
#include <sinter/runtime/parallel.h>
#include <sinter/runtime/tensor.h>

namespace sinter {
namespace {

TEST_CASE("devices by name") {
  CHECK(Device::parse("cpu") == Device::cpu());
  CHECK(Device::parse("cpu:0") == Device::cpu());
  CHECK(Device::parse("fake") == Device::fake());
  CHECK(Device::parse("auto") == Device::best());
  CHECK(Device{} == Device::cpu());
  CHECK(Device::cuda(2).index == 2);
  CHECK(Device::cpu().str() == "cpu");
  CHECK(Device::fake().str() == "fake");
  CHECK(Device::cuda().str() == "cuda:0");
  CHECK(text(Device::cuda(3)) == "cuda:3");
  CHECK(Device::cuda(0) != Device::cuda(1));
}

TEST_CASE("rubbish is refused with what would have been understood") {
  for (const char* rubbish : {"", " cpu", "cpu ", "CPU", "cpux", "cpu:", "gpu", "cuda:x",
                              "cuda:", "cuda:1x", "cuda:-1", "cuda: 1", "cuda:+1", "cuda1",
                              "cuda:1:2", "cuda:99999999999999999999", "auto:0", "fakes"}) {
    CAPTURE(rubbish);
    check_refused([rubbish] { Device::parse(rubbish); },
                  {text("unknown device \"", rubbish, "\""), "auto, cpu, cuda or cuda:N"});
  }
}

TEST_CASE("a device that is not there is one clear error; asking for it is none") {
  for (const Device device : {Device::cuda(4096), Device::cuda(-1), Device{DeviceType::cpu, 1},
                              Device{DeviceType::fake, 7}}) {
    CHECK_NOTHROW(is_available(device));
    CHECK_FALSE(is_available(device));
    check_refused([device] { require_available(device); }, {"device", device.str()});
    check_refused([device] { synchronize(device); }, {"device", device.str()});
  }
  check_refused([] { Device::parse("cuda:4096"); }, {"cuda:4096"});
  CHECK(is_available(Device::cpu()));
  CHECK(is_available(Device::fake()));
  CHECK_NOTHROW(synchronize(Device::cpu()));
  CHECK_NOTHROW(synchronize(Device::fake()));
}

TEST_CASE("asking for CUDA gives it, or says why not") {
  if (is_available(Device::cuda())) {
    CHECK(Device::parse("cuda") == Device::cuda(0));
    CHECK_NOTHROW(Device::parse("cuda:0"));
    return;
  }
  const std::string reason = cuda_backend.absent_because();
  CHECK(reason != "");
  for (const char* name : {"cuda", "cuda:0", "cuda:7"}) {
    check_refused([name] { Device::parse(name); }, {name, "cannot be used", reason});
  }
  check_refused([] { Tensor::zeros({2}, DType::float32, Device::cuda()); }, {"cuda:0", reason});
  check_refused([] { Tensor::zeros({2}).to(Device::cuda()); }, {"cuda:0", reason});
}

TEST_CASE("the best device exists and comes with a reason") {
  const DeviceChoice choice = best_device();
  CHECK(choice.reason != "");
  CHECK(choice.device == Device::best());
  CHECK(is_available(choice.device));
  CHECK(choice.device.type != DeviceType::fake);
  const int gpus = cuda_backend.count();
  CAPTURE(choice.reason);
  if (gpus == 0) {
    CHECK(choice.device == Device::cpu());
    CHECK(choice.reason == cuda_backend.absent_because());
  } else {
    CHECK(choice.device == Device::cuda());
    CHECK(choice.reason.starts_with(
        text(gpus, gpus == 1 ? " CUDA device found: " : " CUDA devices found, the first: ")));
    CHECK(choice.reason.ends_with(cuda_backend.name(0)));
    CHECK(cuda_backend.name(0) != "");
  }
}

TEST_CASE("child: look for a GPU" * doctest::skip()) {
  CHECK_FALSE(is_available(Device::cuda()));
  CHECK(Device::best() == Device::cpu());
  CHECK(Device::parse("auto") == Device::cpu());
  std::cout << "said: " << sentence_of([] { Device::parse("cuda"); }) << std::endl;
}

TEST_CASE("hiding every GPU leaves the CPU, and CUDA one error") {
  for (const char* hidden : {"CUDA_VISIBLE_DEVICES=", "CUDA_VISIBLE_DEVICES=99"}) {
    const ChildOutput out = run_child(hidden, "child: look for a GPU");
    CAPTURE(out.text);
    CHECK(out.passed);
    CHECK(out.says("said: device cuda:0 cannot be used: "));
    CHECK(out.says("device: cpu ("));
  }
}

TEST_CASE("build_info says in one line what runs here") {
  const std::string info = build_info();
  CAPTURE(info);
  CHECK(info.find('\n') == std::string::npos);
  const auto says = [&info](const std::string& words) {
    return info.find(words) != std::string::npos;
  };
  CHECK(says(text("sinter ", version(), ",")));
  CHECK((says("CUDA: yes, ") || says("CUDA: no, ")));
  CHECK(says(text("CPU path: ", name_of(cpu_path()))));
  CHECK(says(text(num_threads(), " threads")));
  const DeviceChoice choice = best_device();
  CHECK(says(text("device: ", choice.device, " (", choice.reason, ")")));
  if (!says("CUDA: yes")) {
    CHECK(choice.device == Device::cpu());
  }
}

TEST_CASE("the version is three numbers") {
  int numbers[3] = {-1, -1, -1};
  char rest = 0;
  CHECK(std::sscanf(version(), "%d.%d.%d%c", &numbers[0], &numbers[1], &numbers[2], &rest) == 3);
  for (const int number : numbers) {
    CHECK(number >= 0);
  }
}

}  // namespace
}  // namespace sinter
