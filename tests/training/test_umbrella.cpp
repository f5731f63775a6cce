// Everything public can be named by a program that includes only the umbrella header. The list is
// compared with the headers, so a new type that a program cannot name turns this red.
#include <sinter/sinter.h>
// First, since it must need nothing that a program includes after it.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <tuple>

#include <doctest/doctest.h>

using namespace sinter;

namespace {

// clang-format off
using Public = std::tuple<
    // runtime
    Tensor*, Shape*, DType*, float16*, bfloat16*, Storage*, TapeSlot*, Leaf*, Device*, DeviceType*,
    DeviceChoice*, Error*, Generator*, DropoutCall*, PoolStats*, CpuPath*,
    Event*, Graph*, DurableFile*,
    // kernels
    MatmulPrecision*,
    // autograd
    Tape*, NoTape*, Backward*, Recording*, Saved*, Pass*, DropoutOptions*, CrossEntropyOptions*, NllOptions*, L1Options*, MseOptions*,
    HuberOptions*, SmoothL1Options*, BceWithLogitsOptions*, KlDivOptions*,
    RunningStatistics*, BatchNormTail*, NormTail*,
    DetectAnomaly*, DetectAnomalyOptions*, AnomalyError*,
    GradCheckOptions*, GradCheckReport*, detail::TapeScope*, Autocast*,
    // layers
    GradientComparison*, ParameterGradientError*,
    Module*, Members*, Parameter*, ParameterState*, NamedParameter*, Initializer*, FlatBuffer*, GradientRun*,
    EvalScope*, Linear*, LinearOptions*, Flatten*, Dropout*, ActivationLayer<math::ReLU>*,
    ActivationModule*, DropoutModule*, NamedFieldsOnly*, Sequential*, CrossEntropyLoss*, NLLLoss*, L1Loss*,
    MSELoss*, HuberLoss*, SmoothL1Loss*, BCEWithLogitsLoss*, KLDivLoss*, LayerNorm*, LayerNormOptions*,
    RMSNorm*, RMSNormOptions*, NormModule*, Residual*, Softmax*, SoftmaxOptions*, LogSoftmax*, Softmin*, MultiheadAttention*,
    MultiheadAttentionOptions*, Embedding*, EmbeddingOptions*, GLU*, GLUModule*, GatedLayer<math::SiLU>*,
    Conv1d*, Conv1dOptions*, Conv2d*, Conv2dOptions*, Size2d*, AvgPool1d*, AvgPool1dOptions*, AvgPool2d*,
    AvgPool2dOptions*, MaxPool2d*, MaxPool2dOptions*, AdaptiveAvgPool2d*,
    BatchNorm*, BatchNorm1d*, BatchNorm2d*, BatchNormOptions*, Buffer*, NamedBuffer*,
    TensorFile*, OnnxOptions*, OnnxGraph*, OnnxNode*, OnnxAttribute*, OnnxInitializer*, OnnxValue*,
    // training
    ParameterGroup*, ParameterGroups*, EMA*, EMAOptions*, EarlyStopping*, EarlyStoppingOptions*,
    LrFinderOptions*, LrFinderResult*, WeightsCopy*,
    Optimizer*, SGD*, Adam*, AdamW*, AdamWOptions*, RMSprop*, RMSpropOptions*, Adagrad*,
    AdagradOptions*, NAdam*, NAdamOptions*, RAdam*, RAdamOptions*, Dataset*, Batch*, Subset*, TensorDataset*,
    InMemoryDataset*, InMemoryOptions*, DataLoader*, LoaderOptions*, datasets::Mnist*,
    datasets::MnistOptions*, CapturedStep*, GradScaler*, GradScalerOptions*, TrainingTime*, SchedulePer*,
    OneCycleOptions*, ReduceOnPlateauOptions*, ReduceOnPlateau*, Trainer*, FitOptions*, EpochReport*, Evaluation*, StepReport*,
    ValidationReport*,
    Stateful*, StateVisitor*, LoopPosition*, BestBy*, CheckpointOptions*, NonFiniteError*>;
// clang-format on
static_assert(std::tuple_size_v<Public> > 60);

// Not for programs: devices and capture are the library's own business, the rest helps it to print.
const std::set<std::string> internal{
    "Backend",         "FakeDeviceCounts",  "CaptureScope", "PoolLease",
    "PendingGradient", "DeferredGradients", "EpochRun",     "LayerArgument",
    "LayerCall",       "ProgressBar",       "Table",        "Taker",
    "TextForm",        "AffineParameters",  "Checkpointer", "StopSignals",
    "FitState",        "EpochSums",         "ModuleCall",   "BackwardInAnomaly",
    "FlatState",       "ProtobufMessage",   "OneThread",    "Prefetcher",
    "FolderLock",      "StoredModel",       "Refused"};

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("the umbrella header names every public type") {
  const std::string listed = read("tests/training/test_umbrella.cpp");
  REQUIRE_MESSAGE(!listed.empty(), "run it from the root of the source tree");
  const std::regex definition("\n(class|struct|enum class) ([A-Za-z0-9_]+)[^;\n]*\\{");
  int found = 0;
  for (const char* room : {"runtime", "autograd", "layers", "training"}) {
    for (const auto& entry : std::filesystem::directory_iterator(room)) {
      if (entry.path().extension() != ".h") {
        continue;
      }
      const std::string text = read(entry.path());
      for (std::sregex_iterator match(text.begin(), text.end(), definition), end; match != end;
           ++match) {
        const std::string name = (*match)[2];
        CAPTURE(name);
        ++found;
        const bool named = std::regex_search(listed, std::regex("\\b" + name + "(<.*>)?\\*"));
        CHECK(named != internal.contains(name));
      }
    }
  }
  CHECK(found > 60);
}
