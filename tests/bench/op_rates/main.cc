// Times every op of a model's training step on one device, beside the rates that bound them: of
// copies and of matrix products, measured by Weft on the same device.
//
//   op_rates [--model small|124m|u-small|...] [--device cpu|cuda] [--bf16] [--batch N]
//            [--threads N] [--nondeterministic] [--seconds S] [--json]
//
// An op's time is the difference of the times of two numbers of runs, divided by the difference of
// the numbers (seconds_per_run.h). Bytes: inputs read once, outputs written once. Share: the time
// that the nearer of the two bounds allows, divided by the op's time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <vector>

#include "core/base/error.h"
#include "core/base/terminal.h"
#include "tests/bench/op_rates/op_timer.h"
#include "tests/bench/op_rates/step_ops.h"
#include "tests/bench/training_step/step_device.h"
#include "tests/bench/training_step/step_plan.h"

namespace weft::test {
namespace {

constexpr int kColumns = 80;
constexpr std::string_view kHeader = "      ms GFLOP/s    GB/s share runs  ms/step  op";

struct Options {
  std::string model = "small";
  StepDevice device;
  DType precision = DType::kF32;
  std::int64_t batch = 0;
  double seconds = 30;
  bool json = false;
};

/// Rates that bound an op, per second.
struct Ceilings {
  double bytes = 0;
  double flops = 0;
};

/// Op with its time.
struct TimedOp {
  StepOp op;
  double seconds = 0;  ///< Time of one run.

  double seconds_per_step() const { return seconds * op.runs; }
  double share_of(const Ceilings& ceilings) const {
    return std::max(op.cost.bytes / ceilings.bytes, op.cost.flops / ceilings.flops) / seconds;
  }
};

std::vector<std::string> texts(const std::vector<TensorType>& types) {
  std::vector<std::string> result;
  for (const TensorType& type : types) result.push_back(to_string(type));
  return result;
}

/// Returns the op and its inputs' types; for work on all parameters, their number.
std::string description(const StepOp& op) {
  // Tables wrap lines at spaces.
  std::string text = std::regex_replace(op.name_with_attributes(), std::regex(","), ", ");
  if (op.call == StepOp::Call::kSumsOfSquares || op.call == StepOp::Call::kAdamW)
    return fmt::format("{} of {} parameters", text, op.inputs.size());
  for (const std::string& type : texts(op.inputs)) text += " " + type;
  return text;
}

void print_row(const TimedOp& timed, const Ceilings& ceilings) {
  const std::string row =
      fmt::format("{:8.3f} {:7.1f} {:7.1f} {:5.2f} {:4} {:8.3f}  {}", timed.seconds * 1e3,
                  timed.op.cost.flops / timed.seconds * 1e-9,
                  timed.op.cost.bytes / timed.seconds * 1e-9, timed.share_of(ceilings),
                  timed.op.runs, timed.seconds_per_step() * 1e3, description(timed.op));
  // Continuation lines start below the op's name.
  const std::size_t indent = kHeader.find("op") - row.find_first_not_of(' ');
  fmt::print("{}\n", wrap_lines(row, kColumns, static_cast<int>(indent)));
}

void print_table(const Options& options, const Device& device, const Ceilings& ceilings,
                 const std::vector<TimedOp>& ops) {
  fmt::print("{}, {}, on {}\nceilings: copies {:.1f} GB/s, matrix products {:.1f} GFLOP/s\n\n{}\n",
             options.model, to_string(options.precision), device.description(),
             ceilings.bytes * 1e-9, ceilings.flops * 1e-9, kHeader);
  double seconds = 0, allowed = 0;
  int runs = 0;
  for (const TimedOp& timed : ops) {
    print_row(timed, ceilings);
    seconds += timed.seconds_per_step();
    allowed += timed.seconds_per_step() * timed.share_of(ceilings);
    runs += timed.op.runs;
  }
  fmt::print("{:8} {:7} {:7} {:5.2f} {:4} {:8.3f}  all\n", "", "", "", allowed / seconds, runs,
             seconds * 1e3);
  for (const std::string& note : device.notes()) fmt::print("note: {}\n", note);
}

void print_json(const Options& options, const Device& device, const Ceilings& ceilings,
                const std::vector<TimedOp>& ops) {
  const nlohmann::json common{{"benchmark", "op_rates"},
                              {"model", options.model},
                              {"device", device.description()},
                              {"precision", to_string(options.precision)},
                              {"deterministic", options.device.deterministic}};
  nlohmann::json first = common;
  first.update({{"copy_gb_s", ceilings.bytes * 1e-9},
                {"matmul_gflops", ceilings.flops * 1e-9},
                {"notes", device.notes()}});
  fmt::print("{}\n", first.dump());
  for (const TimedOp& timed : ops) {
    nlohmann::json line = common;
    line.update({{"op", timed.op.name()},
                 {"description", description(timed.op)},
                 {"inputs", texts(timed.op.inputs)},
                 {"outputs", texts(timed.op.outputs)},
                 {"ms", timed.seconds * 1e3},
                 {"bytes", timed.op.cost.bytes},
                 {"flops", timed.op.cost.flops},
                 {"gb_s", timed.op.cost.bytes / timed.seconds * 1e-9},
                 {"gflops", timed.op.cost.flops / timed.seconds * 1e-9},
                 {"share_of_ceiling", timed.share_of(ceilings)},
                 {"runs", timed.op.runs}});
    fmt::print("{}\n", line.dump());
  }
}

void measure(const Options& options) {
  const SteadyClock clock;
  const StepModel model = make_step_model(options.model, options.batch, options.precision);
  const std::vector<StepOp> ops = ops_of_step(step_plan(model).train.programs.front());
  const auto device = open_device(options.device);
  const Ceilings ceilings{copy_rate(clock, *device),
                          matmul_rate(clock, *device, options.precision)};
  OpTimer timer(*device, clock, model, ops);
  std::vector<TimedOp> timed;
  for (const StepOp& op : ops) {
    timed.push_back({op, timer.seconds(op, options.seconds / static_cast<double>(ops.size()))});
    if (!(std::isfinite(timed.back().seconds) && timed.back().seconds > 0))
      throw_error(ErrorCode::kInternal, "{} took {} s", description(op), timed.back().seconds);
  }
  std::ranges::stable_sort(timed, std::greater(), &TimedOp::seconds_per_step);
  if (options.json) print_json(options, *device, ceilings, timed);
  else print_table(options, *device, ceilings, timed);
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  using namespace weft;
  test::Options options;
  bool bf16 = false, nondeterministic = false;
  CLI::App app{"Times the ops of a training step on one device"};
  app.add_option("--model", options.model)
      ->check(CLI::IsMember(test::step_model_names()))
      ->capture_default_str();
  app.add_option("--device", options.device.kind)
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_flag("--bf16", bf16, "bf16 with float32 master values, instead of float32");
  app.add_option("--batch", options.batch,
                 "sequences or pictures a step, instead of the model's own")
      ->check(CLI::Range(1, 4096));
  app.add_option("--threads", options.device.threads)
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_flag("--nondeterministic", nondeterministic,
               "let a GPU use faster ops that may give other bits in each run");
  app.add_option("--seconds", options.seconds,
                 "time for the ops together; each op runs at least six times")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_flag("--json", options.json, "a line of ceilings, then a line per op");
  CLI11_PARSE(app, argc, argv);
  if (bf16) options.precision = DType::kBF16;
  options.device.deterministic = !nondeterministic;
  try {
    test::measure(options);
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "op_rates: {}\n", error.describe());
    return 1;
  }
}
