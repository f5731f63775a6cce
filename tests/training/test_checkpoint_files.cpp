// What is said of a file that is damaged, of another time or for another run; nothing has changed
// then.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include "../runtime/sentence.h"
#include "checkpoint_run.h"
#include "data_files.h"

using namespace sinter;
using namespace sinter::testing;

namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

CheckpointParts parts_of(SmallRun& run) { return {{"optimizer", run.optimizer.get()}}; }

void save(SmallRun& run, const std::filesystem::path& path) {
  save_checkpoint(path, *run.model, parts_of(run));
}

// A run after some steps, whose checkpoint is "run" in a folder.
struct SavedRun {
  SavedRun() {
    run.trainer->fit(clouds(70, 12, 5), {.epochs = 2, .batch_size = 16, .progress = false});
    save(run, path);
    bytes = content(path);
  }
  SmallRun run;
  TempFolder folder;
  std::filesystem::path path = folder / "run";
  std::string bytes;
};

// Refused with these words, and `into` is as it was.
void check_not_loaded(const std::filesystem::path& path, SmallRun& into,
                      std::initializer_list<std::string_view> words) {
  const std::string before = into.bytes({});
  check_refused([&] { load_checkpoint(path, *into.model, parts_of(into)); }, words);
  CHECK((into.bytes({}) == before));
}

// As docs/checkpoints.md says it.
TensorFile with_checksum(TensorFile file) {
  std::uint64_t sum = 0, sum_of_sums = 0;
  const auto add = [&](std::string bytes) {
    bytes.resize((bytes.size() + 7) / 8 * 8, '\0');
    for (std::size_t word = 0; word < bytes.size(); word += 8) {
      for (std::size_t i = 0; i < 8; ++i) {
        sum += static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[word + i])) << (8 * i);
      }
      sum_of_sums += sum;
    }
  };
  file.metadata.erase("checksum");
  for (const auto& [key, value] : file.metadata) {
    add(key + "=" + value + "\n");
  }
  for (const auto& [name, tensor] : file.tensors) {
    add(text(name, " ", tensor.dtype(), " ", tensor.shape(), "\n"));
    add({reinterpret_cast<const char*>(tensor.address()), tensor.bytes()});
  }
  file.metadata["checksum"] = std::to_string(sum) + " " + std::to_string(sum_of_sums);
  return file;
}

}  // namespace

TEST_CASE("a checkpoint is a safetensors file of plain names, its numbers bit for bit") {
  SavedRun saved;
  const TensorFile file = read_safetensors(saved.path);
  CHECK(file.metadata.at("format") == "sinter checkpoint");
  CHECK(file.metadata.at("version") == "1");
  CHECK(file.metadata.at("model") == saved.run.model->text());
  CHECK(file.metadata.at("checksum") == with_checksum(file).metadata.at("checksum"));
  CHECK(file.tensors.at("model.0.weight").shape() == Shape{17, 12});
  CHECK(file.tensors.at("model.1.running_mean").shape() == Shape{17});
  CHECK(file.tensors.at("optimizer.state1.0.weight").shape() == Shape{17, 12});
  CHECK(file.tensors.at("optimizer.steps").item() == 10);
  CHECK(file.tensors.at("optimizer.lr").values<double>()[0] == 0.01);
}

TEST_CASE("loading gives back what is trained, and drops gradients") {
  SavedRun saved;
  SmallRun other(make_adam, 8);
  for (const NamedParameter& parameter : other.model->parameters()) {
    parameter.set_trainable(true);
  }
  Tape tape;
  tape.backward(sum((*other.model)(Tensor::full({4, 12}, 1))));
  load_checkpoint(saved.path, *other.model, parts_of(other));
  for (const NamedParameter& parameter : other.model->parameters()) {
    CHECK(parameter.state->trainable == (parameter.name != other.model->parameters().back().name));
    CHECK_FALSE(has_gradient(parameter));
  }
  CHECK((other.bytes({}) == saved.run.bytes({})));
}

TEST_CASE("parts of a model with random numbers of their own keep them") {
  const auto make = [](std::uint64_t seed) {
    manual_seed(seed);
    auto run = std::make_unique<SmallRun>(make_adam, seed);
    (*run->model)[2].set_generator(std::make_shared<Generator>(seed + 40));
    return run;
  };
  const TempFolder folder;
  const auto saved = make(1), loaded = make(2);
  (*saved->model)[2].generator()->set_state(7, 3);
  save(*saved, folder / "run");
  load_checkpoint(folder / "run", *loaded->model, parts_of(*loaded));
  CHECK((*loaded->model)[2].generator()->seed() == 41);
  CHECK((*loaded->model)[2].generator()->step() == 7);
  CHECK((*loaded->model)[2].generator()->next_call() == 3);
  CHECK(loaded->model->generator()->seed() == 1);
}

TEST_CASE("a file cut short or too long is refused, wherever that is") {
  SavedRun saved;
  SmallRun other(make_adam, 8);
  const auto path = saved.folder / "cut";
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const std::string sentence =
        sentence_of([&] { load_checkpoint(path, *other.model, parts_of(other)); });
    return has(sentence, path.string()) && !has(sentence, "\n");
  };
  const std::string before = other.bytes({});
  for (std::size_t length = 0; length < saved.bytes.size(); length += length < 64 ? 1 : 37) {
    if (!refused(saved.bytes.substr(0, length))) {
      FAIL_CHECK("cut to ", length);
    }
  }
  CHECK(refused(saved.bytes + '\0'));
  CHECK(refused(saved.bytes + saved.bytes));
  CHECK((other.bytes({}) == before));
}

TEST_CASE("no byte of a checkpoint can change unseen") {
  SavedRun saved;
  SmallRun other(make_adam, 8);
  const auto path = saved.folder / "changed";
  const std::string before = other.bytes({});
  for (std::size_t i = 0; i < saved.bytes.size(); i += i < 4000 ? 3 : 11) {
    std::string bytes = saved.bytes;
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    const std::function<void()> readers[] = {
        [&] { load_checkpoint(path, *other.model, parts_of(other)); },
        [&] { load_weights(*other.model, path); }, [&] { load_model(path); }};
    for (const auto& read : readers) {
      const std::string sentence = sentence_of(read);
      if (!has(sentence, path.string())) {
        FAIL_CHECK("byte ", i, ": ", sentence);
      }
    }
  }
  CHECK((other.bytes({}) == before));
}

TEST_CASE("a checkpoint of another version, model, optimizer or kind of run is told apart") {
  SavedRun saved;
  SmallRun same(make_adam, 8);
  const auto changed = [&](const std::function<void(TensorFile&)>& change) {
    TensorFile file = read_safetensors(saved.path);
    change(file);
    write_safetensors(saved.folder / "changed", with_checksum(file));
    return saved.folder / "changed";
  };
  check_not_loaded(changed([](TensorFile& file) { file.metadata["version"] = "2"; }), same,
                   {"changed is of version 2", "reads up to 1", "newer"});
  check_not_loaded(changed([](TensorFile& file) { file.metadata["version"] = "one"; }), same,
                   {"has the version \"one\", expected a whole number"});
  check_not_loaded(
      changed([](TensorFile& file) { file.tensors["model.0.weight"].data<float>()[3] = NAN; }),
      same, {"0.weight of the model holds a NaN or an infinity"});
  check_not_loaded(changed([](TensorFile& file) {
                     file.tensors["optimizer.lr"] = Tensor::full({}, NAN, DType::float64);
                   }),
                   same, {"optimizer.lr is nan, expected 0 to"});
  check_not_loaded(changed([](TensorFile& file) {
                     file.tensors["optimizer.steps"] = Tensor::full({}, -1, DType::int64);
                   }),
                   same, {"optimizer.steps is -1, expected 0 to"});
  check_not_loaded(changed([](TensorFile& file) {
                     file.tensors["optimizer.steps"] = Tensor::zeros({2}, DType::int64);
                   }),
                   same, {"optimizer.steps has shape [2], expected one number"});
  check_not_loaded(changed([](TensorFile& file) { file.tensors.erase("optimizer.steps"); }), same,
                   {"optimizer.steps is missing"});
  check_not_loaded(changed([](TensorFile& file) {
                     file.tensors["optimizer.state0.0.weight"] = Tensor::zeros({12, 17});
                   }),
                   same, {"optimizer.state0.0.weight has shape [12, 17], expected [17, 12]"});
  check_not_loaded(
      changed([](TensorFile& file) { file.tensors["optimizer.more"] = Tensor::zeros({1}); }), same,
      {"holds optimizer.more, which no part of this run has"});
  check_not_loaded(
      changed([](TensorFile& file) { file.tensors["model.9.weight"] = Tensor::zeros({1}); }), same,
      {"is for another model", "unexpected: 9.weight"});

  SmallRun sgd([](Parameters p) { return std::make_unique<SGD>(std::move(p)); });
  check_not_loaded(saved.path, sgd,
                   {"\"optimizer\" was Adam(beta1=0.9, beta2=0.999,", "and is SGD(momentum=0,"});
  SmallRun slower(
      [](Parameters p) { return std::make_unique<Adam>(std::move(p), AdamOptions{.beta1 = 0.8}); });
  check_not_loaded(saved.path, slower, {"was Adam(beta1=0.9,", "and is Adam(beta1=0.8,"});
  manual_seed(1);
  Sequential model{Linear{12, 5}};
  check_refused([&] { load_checkpoint(saved.path, model, {}); },
                {"is for the model linear(12, 17) -> ", "and this one is linear(12, 5)"});
  check_refused([&] { load_checkpoint(saved.path, *same.model, {}); },
                {"holds the state of \"optimizer\", which this run does not have"});
  LoopPosition position;
  check_refused(
      [&] {
        load_checkpoint(saved.path, *same.model,
                        {{"optimizer", same.optimizer.get()}, {"position", &position}});
      },
      {"holds no state of \"position\""});
  check_refused([&] { load_checkpoint(saved.folder / "none", *same.model, {}); },
                {"none cannot be opened"});
  for (const char* name : {"", "model", "a.b", "generator0"}) {
    check_refused(
        [&] {
          save_checkpoint(saved.path, *same.model, {{name, &position}});
        },
        {"a part cannot be named"});
  }
  check_refused(
      [&] {
        save_checkpoint(saved.path, *same.model, {{"position", nullptr}});
      },
      {"\"position\" is null"});
}

TEST_CASE("weights and checkpoints are not mistaken for each other") {
  SavedRun saved;
  SmallRun other(make_adam, 8);
  save_weights(*saved.run.model, saved.folder / "weights");
  check_not_loaded(saved.folder / "weights", other, {"weights is no checkpoint; load_weights()"});
  load_weights(*other.model, saved.path);  // the weights that are in it
  save_weights(*other.model, saved.folder / "again");
  CHECK((content(saved.folder / "weights") == content(saved.folder / "again")));
  Sequential smaller{Linear{12, 5}};
  check_refused([&] { load_weights(smaller, saved.path); },
                {"checkpoint " + saved.path.string() + " is for another model"});
}

TEST_CASE("the model in a checkpoint is not read from a newer one, or with a NaN") {
  SavedRun saved;
  SmallRun other(make_adam, 8);
  const std::string before = other.bytes({});
  const auto path = saved.folder / "changed";
  const auto refused = [&](std::string_view words) {
    const std::string all = "checkpoint " + path.string() + std::string(words);
    check_refused([&] { load_weights(*other.model, path); }, {all});
    check_refused([&] { load_model(path); }, {all});
  };
  TensorFile file = read_safetensors(saved.path);
  file.metadata["version"] = "2";
  write_safetensors(path, file);
  refused(" is of version 2, and this sinter reads up to 1");
  file = read_safetensors(saved.path);
  file.tensors["model.0.weight"].data<float>()[3] = NAN;
  write_safetensors(path, file);
  refused(" is damaged: its checksum differs");
  write_safetensors(path, with_checksum(file));
  refused(" holds a NaN in 0.weight");
  CHECK((other.bytes({}) == before));
}

TEST_CASE("a part's number that could not be loaded is not saved, and the file is as it was") {
  struct Part : Stateful {
    double mean = 0;
    std::int64_t count = 0;
    void visit_state(StateVisitor& v) override {
      v.number("mean", mean);
      v.number("count", count, 0, 9);
    }
  };
  SavedRun saved;
  Part part;
  const auto save_part = [&] { save_checkpoint(saved.path, *saved.run.model, {{"p", &part}}); };
  const std::string who = "cannot write checkpoint " + saved.path.string();
  part.mean = NAN;
  check_refused(save_part, {who + ": p.mean is nan, expected -inf to inf"});
  part.mean = 0;
  for (const std::int64_t count : {-1, 10}) {
    part.count = count;
    check_refused(save_part, {who + text(": p.count is ", count, ", expected 0 to 9")});
  }
  CHECK((content(saved.path) == saved.bytes));
  part.count = 9;
  part.mean = INFINITY;
  save_part();
  part = {};
  load_checkpoint(saved.path, *saved.run.model, {{"p", &part}});
  CHECK(part.mean == INFINITY);
  CHECK(part.count == 9);
}

TEST_CASE("weights that are not finite are not saved, and the file is as it was") {
  SavedRun saved;
  for (const float bad : {NAN, INFINITY}) {
    SmallRun run;
    Tensor weight = run.model->parameters()[0].value().detach();
    weight.data<float>()[5] = bad;
    check_refused([&] { save(run, saved.path); },
                  {"cannot write checkpoint " + saved.path.string(),
                   ": 0.weight of the model holds a NaN or an infinity"});
  }
  SmallRun run;
  run.model->buffers()[0].value.data<float>()[0] = NAN;
  CHECK_THROWS_AS(save(run, saved.path), NonFiniteError);
  CHECK((content(saved.path) == saved.bytes));
}

TEST_CASE("float64 and 16-bit models are saved and loaded in their types") {
  const TempFolder folder;
  for (const DType dtype : {DType::float64, DType::float16, DType::bfloat16}) {
    CAPTURE(dtype);
    SmallRun saved, loaded(make_adam, 8);
    saved.model->to(dtype);
    loaded.model->to(dtype);
    save(saved, folder / "run");
    load_checkpoint(folder / "run", *loaded.model, parts_of(loaded));
    CHECK((loaded.bytes({}) == saved.bytes({})));
    SmallRun other(make_adam, 8);
    check_not_loaded(folder / "run", other, {"is for another model", "in the file, float32"});
    saved.model->parameters()[0].value().detach().fill(INFINITY);
    CHECK_THROWS_AS(save(saved, folder / "run"), NonFiniteError);
  }
}
