// Times one training step of a model on one device: forward, backward, clipping to a global norm,
// AdamW.
//
//   training_step [--model large|small|tiny|124m|u-small|...] [--device cpu|cuda] [--bf16]
//                 [--steps N] [--threads N] [--ops] [--json]
//   training_step --dump DIR   writes initial values and the inputs of --steps steps; --losses
//                              prints the losses of those steps, to compare with
//                              tests/bench/peers/pytorch_step.py --weights DIR.
#include <fmt/format.h>

#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/autodiff/differentiate.h"
#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/philox.h"
#include "core/base/statistics.h"
#include "core/cpu/cpu_device.h"
#include "core/cuda_support/cuda_support.h"
#include "core/evaluate/one_device_trainer.h"
#include "core/ops/op_definition.h"
#include "tests/bench/training_step/fixed_data.h"
#include "tests/bench/training_step/step_model.h"
#include "tests/bench/training_step/timed_device.h"

namespace weft {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr double kClipNorm = 1;
const AdamW kOptimizer{.learning_rate = 3e-4, .weight_decay = 0.1};

double seconds_of(const Clock& clock, const auto& work) {
  const TimePoint begin = clock.now();
  work();
  return std::chrono::duration<double>(clock.now() - begin).count();
}

/// Returns this process's CPU time in seconds, which measures a step even on a shared machine.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

/// Returns the best rate of the device's own product of two square matrices. Their elements are
/// random, since a GPU multiplies zeros faster.
double matmul_rate(const Clock& clock, Device& device, DType precision) {
  const std::int64_t size = device.is_host_memory() ? 1024 : 8192;
  const TensorType type{precision, {size, size}};
  const DeviceMemory memory = device.allocate(3 * type.bytes());
  const auto at = [&](std::size_t i) { return memory.data() + i * type.bytes(); };
  const auto stream = device.create_stream();
  std::vector<std::byte> content(3 * type.bytes());
  PhiloxStream random(kSeed);
  // Small positive numbers in both types: the exponent's upper bits are fixed.
  for (std::size_t i = 0; i < content.size(); ++i)
    content[i] = static_cast<std::byte>(
        i % size_of(precision) == size_of(precision) - 1 ? 0x3d : random.below(256));
  stream->copy(content, {memory.data(), memory.size()});
  stream->synchronize();
  const Op linear{OpKind::kLinear, {}};
  const std::vector<ConstTensorRef> inputs{{type, at(0)}, {type, at(1)}};
  const std::vector<TensorRef> outputs{{type, at(2)}};
  double best = 1e9;
  for (int i = 0; i < 8; ++i) {
    best = std::min(best, seconds_of(clock, [&] {
                      stream->run(linear, inputs, outputs);
                      stream->synchronize();
                    }));
  }
  return 2.0 * std::pow(static_cast<double>(size), 3) / best;
}

/// Returns the floating-point operations of a step's matrix products, convolutions and attention.
/// Attention counts its causal half only, as other benchmarks do.
double matmul_flops(const Graph& graph) {
  double sum = 0;
  for (const Node& node : graph.nodes()) {
    const auto name = to_string(node.op.kind);
    if (name.starts_with("linear") || name.starts_with("convolution") ||
        name.find("attention") != name.npos)
      sum += cost(graph, node).flops;
  }
  return sum;
}

struct Options {
  std::string model = "small";
  std::string device = "cpu";
  DType precision = DType::kF32;
  int steps = 10;
  int threads = 1;
  std::int64_t batch = 0;
  std::string dump;
  bool losses = false;
  bool per_op = false;
  bool json = false;
};

void feed(Evaluation& evaluation, const test::StepModel& model,
          const std::vector<std::vector<std::byte>>& contents) {
  for (std::size_t i = 0; i < contents.size(); ++i) evaluation.write(model.inputs[i], contents[i]);
}

std::unique_ptr<Device> make_device(const Options& options) {
  if (options.device == "cuda") return make_cuda_device({}, plugin_search(plugin_places()));
  return std::make_unique<CpuDevice>(
      CpuDeviceOptions{.threads = options.threads, .instruction_set = {}});
}

int print_losses(const test::StepModel& model, const Options& options) {
  const auto device = make_device(options);
  OneDeviceTrainer trainer(*device, differentiate(model.graph, model.loss), kSeed);
  std::vector<double> losses;
  for (int step = 0; step < options.steps; ++step) {
    const auto contents = test::step_inputs(model, kSeed, step);
    const auto feed_step = [&](int, Evaluation& evaluation) { feed(evaluation, model, contents); };
    losses.push_back(trainer.step(1, feed_step, kOptimizer, kClipNorm).loss);
  }
  const nlohmann::json record{{"benchmark", "training_step"},
                              {"model", model.name},
                              {"device", device->description()},
                              {"precision", to_string(options.precision)},
                              {"losses", losses},
                              {"notes", device->notes()}};
  fmt::print("{}\n", record.dump());
  return 0;
}

int time_steps(const test::StepModel& model, const Options& options) {
  const SteadyClock clock;
  const TrainingGraph training = differentiate(model.graph, model.loss);
  const double flops = matmul_flops(training.graph);
  const auto device = make_device(options);
  test::TimedDevice timed(*device, clock);
  OneDeviceTrainer trainer(options.per_op ? timed : *device, training, kSeed);
  const auto contents = test::step_inputs(model, kSeed, 0);
  double loss = 0;
  const auto step = [&] {
    const auto feed_step = [&](int, Evaluation& evaluation) { feed(evaluation, model, contents); };
    loss = trainer.step(1, feed_step, kOptimizer, kClipNorm).loss;
  };
  for (int i = 0; i < (device->is_host_memory() ? 2 : 5); ++i) step();
  timed.clear();
  const double rate_before = matmul_rate(clock, *device, options.precision);
  std::vector<double> seconds, cpu;
  for (int i = 0; i < options.steps; ++i) {
    const double cpu_before = cpu_seconds();
    seconds.push_back(seconds_of(clock, step));
    cpu.push_back(cpu_seconds() - cpu_before);
  }
  const double rate = std::max(rate_before, matmul_rate(clock, *device, options.precision));
  if (!(loss > 0 && loss < model.largest_loss))
    throw_error(ErrorCode::kInternal, "the loss {} makes no sense", loss);

  const double time = median(seconds), achieved = flops / time;
  if (options.json) {
    fmt::print("{}\n",
               nlohmann::json{{"benchmark", "training_step"},
                              {"model", model.name},
                              {"device", device->description()},
                              {"precision", to_string(options.precision)},
                              {"ms_per_step", time * 1e3},
                              {"ms_per_step_best", *std::ranges::min_element(seconds) * 1e3},
                              {"cpu_ms_per_step", median(cpu) * 1e3},
                              {"device_bytes", trainer.device_bytes()},
                              {"items_per_second", model.items / time},
                              {"gflops", achieved * 1e-9},
                              {"matmul_gflops", rate * 1e-9},
                              {"share_of_matmul_rate", achieved / rate},
                              {"notes", device->notes()}}
                   .dump());
  } else {
    fmt::print(
        "{}, {}, on {}: {:.1f} ms/step (median of {}), {:.0f} {}/s, {:.1f} GFLOP/s = {:.2f} of the "
        "matmul rate {:.1f}\n",
        model.name, to_string(options.precision), device->description(), time * 1e3, options.steps,
        model.items / time, model.item, achieved * 1e-9, achieved / rate, rate * 1e-9);
    fmt::print("memory: {:.1f} MiB persistent, {:.1f} MiB temporary\n",
               trainer.evaluation().persistent_bytes() / 0x1p20,
               trainer.evaluation().temporary_bytes() / 0x1p20);
    for (const std::string& note : device->notes()) fmt::print("note: {}\n", note);
  }
  if (options.per_op) timed.print(options.steps);
  return 0;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using namespace weft;
  Options options;
  bool bf16 = false;
  CLI::App app{"Times a training step on one device"};
  app.add_option("--model", options.model)
      ->check(CLI::IsMember(test::step_model_names()))
      ->capture_default_str();
  app.add_option("--device", options.device)
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_flag("--bf16", bf16, "bf16 with float32 master values, instead of float32");
  app.add_option("--batch", options.batch,
                 "sequences or pictures a step, instead of the model's own")
      ->check(CLI::Range(1, 4096));
  app.add_option("--steps", options.steps)->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--threads", options.threads)->check(CLI::Range(1, 256))->capture_default_str();
  app.add_option("--dump", options.dump,
                 "write initial values, and inputs for --steps steps, into this folder")
      ->type_name("DIR");
  app.add_flag("--losses", options.losses, "train on those, and print the losses");
  app.add_flag("--ops", options.per_op, "time per op");
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  if (bf16) options.precision = DType::kBF16;
  try {
    const test::StepModel model =
        test::make_step_model(options.model, options.batch, options.precision);
    if (!options.dump.empty()) test::write_fixed_data(options.dump, model, kSeed, options.steps);
    if (options.losses) return print_losses(model, options);
    return options.dump.empty() ? time_steps(model, options) : 0;
  } catch (const Error& error) {
    fmt::print(stderr, "training_step: {}\n", error.describe());
    return 1;
  }
}
