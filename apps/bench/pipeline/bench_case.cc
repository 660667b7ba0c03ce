#include "apps/bench/pipeline/bench_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "core/base/error.h"
#include "core/base/nearest.h"

namespace weft::apps {
namespace {

using mesh::Lowering;
using mesh::Payload;
using transfer::ReshardAlgorithm;

/// Schedule with about the memory of PyTorch's schedules. `auto` is also measured within its
/// memory.
constexpr const char* kMemoryReference = "eager-1f1b";

/// Returns an arm per schedule and a single arm with signals only, as a reference for all.
std::vector<Arm> with_one_signal(const std::vector<std::string>& schedules, bool baseline) {
  std::vector<Arm> arms;
  if (baseline) arms.push_back(baseline_arm());
  for (const std::string& schedule : schedules)
    arms.push_back({schedule, ReshardAlgorithm::kWeft, Lowering::kLanes});
  arms.push_back({schedules.back(), ReshardAlgorithm::kWeft, Lowering::kLanes, Payload::kSignals});
  return arms;
}

void append_papers(std::vector<PipelineCase>& cases, const PipelineBenchOptions& options) {
  const auto add = [&](const std::string& model, const std::string& text, bool on_request_only) {
    PipelineCase one{model, model, text, {}, {}, {}, false, on_request_only};
    one.model.name = model;
    one.model.microbatches = options.microbatches > 0 ? options.microbatches
                             : options.quick          ? 8
                                                      : 0;
    one.arms = options.all_arms ? all_arms(options.schedules) : paper_arms(options.schedules);
    cases.push_back(std::move(one));
  };
  add("u-transformer-2b", "the paper's U-Transformer of 2.1 B parameters, weights split in a mesh",
      false);
  add("gpt-2.6b", "the paper's GPT of 2.6 B parameters, two stages", false);
  add("u-transformer-1b", "the paper's U-Transformer of 1.1 B parameters", false);
  add("gpt-1.3b", "the paper's GPT of 1.3 B parameters", false);
  add("gpt-2.6b-4", "the paper's GPT of 2.6 B parameters, four stages", true);
  add("u-transformer-2b-batch",
      "the same U-Transformer with activations split by batch: nothing is replicated", true);
  add("u-transformer-1b-batch", "the same for 1.1 B parameters", true);
}

void append_real(std::vector<PipelineCase>& cases, const PipelineBenchOptions& options) {
  // PyTorch has gpipe too, and `auto` may use as much memory as gpipe.
  std::vector<std::string> schedules = options.schedules;
  if (std::find(schedules.begin(), schedules.end(), "gpipe") == schedules.end())
    schedules.insert(schedules.begin(), "gpipe");
  for (const std::string model : {"gpt-real", "u-transformer-real"}) {
    for (const double ratio : options.ratios) {
      PipelineCase one{fmt::format("{}-{:g}", model, ratio),
                       model,
                       "real compute on CPU devices, one a host",
                       {},
                       {},
                       {},
                       false,
                       false};
      one.model.name = model;
      one.model.microbatches = options.microbatches;
      one.transfer_ratio = ratio;
      one.arms = with_one_signal(schedules, true);
      if (std::find(schedules.begin(), schedules.end(), "auto") != schedules.end()) {
        Arm frugal{"auto", ReshardAlgorithm::kWeft, Lowering::kLanes};
        frugal.memory_limit_of = kMemoryReference;
        one.arms.insert(one.arms.end() - 1, frugal);
      }
      one.with_peer = model == "gpt-real";
      cases.push_back(std::move(one));
    }
  }
}

/// Adds real compute over links so fast that transfers hardly matter.
void append_real_bubble(std::vector<PipelineCase>& cases, const PipelineBenchOptions& options) {
  PipelineCase one{"bubble-real",
                   "bubble-real",
                   "bubbles of real compute, transfers of a hundredth of it",
                   {},
                   {},
                   {},
                   false,
                   false};
  one.model.name = "gpt-real";
  one.model.microbatches = options.microbatches;
  one.transfer_ratio = 0.01;
  for (const std::string schedule : {"1f1b", "zb-h1", "zb-h2"})
    one.arms.push_back({schedule, ReshardAlgorithm::kWeft, Lowering::kLanes});
  cases.push_back(std::move(one));
}

/// Adds chains of equal emulated stages.
void append_chains(std::vector<PipelineCase>& cases, const PipelineBenchOptions& options) {
  const auto chain = [&](const std::string& group, int stages, double ratio,
                         const std::string& text) {
    PipelineCase one{group, group, text, {}, {}, {}, false, false};
    one.model.name = fmt::format("chain-{}", stages);
    one.model.microbatches = options.microbatches > 0 ? options.microbatches
                             : options.quick          ? 8
                                                      : 32;
    one.model.transfer_ratio = ratio;
    return one;
  };
  for (const int stages : {2, 4}) {
    // An interface carries two transfers each way if there are more than two stages, so a ratio of
    // 0.5 saturates it.
    for (const double ratio : stages == 2 ? std::vector{0.125, 0.25, 0.375, 0.5, 0.625, 0.75}
                                          : std::vector{0.125, 0.25, 0.375, 0.5}) {
      PipelineCase one = chain(fmt::format("sweep-{}", stages), stages, ratio,
                               "how much transfer a schedule hides");
      one.name = fmt::format("sweep-{}-{:g}", stages, ratio);
      one.transfer_ratio = ratio;
      one.model.pass_seconds = 0.04;
      one.model.link_rate_bits = stages == 2 ? 400e6 : 250e6;
      one.arms = with_one_signal(options.schedules, false);
      cases.push_back(std::move(one));
    }
  }
  for (const int stages : {4, 8}) {
    PipelineCase one =
        chain(fmt::format("bubble-{}", stages), stages, 0, "bubbles without transfers");
    for (const std::string schedule : {"1f1b", "zb-h1", "zb-h2"})
      one.arms.push_back({schedule, ReshardAlgorithm::kWeft, Lowering::kLanes});
    cases.push_back(std::move(one));
  }
  for (const int stages : {1, 2}) {
    PipelineCase one = chain(fmt::format("dispatch-{}", stages), stages, 0,
                             stages == 1 ? "actions that take no time: what the runtime costs"
                                         : "the same with a message each");
    one.model.pass_seconds = 0;
    one.model.microbatches = 512;
    one.arms.push_back({"gpipe", ReshardAlgorithm::kWeft, Lowering::kLanes});
    one.arms.push_back({"zb-h1", ReshardAlgorithm::kWeft, Lowering::kLanes});
    cases.push_back(std::move(one));
  }
}

/// Adds replicas on hosts of their own with large gradients, to compare when to sum them.
void append_reductions(std::vector<PipelineCase>& cases, const PipelineBenchOptions& options) {
  for (const double ratio : {0.5, 1.0, 2.0}) {
    PipelineCase one{fmt::format("reduction-{:g}", ratio),
                     "reduction",
                     "replicas that sum their gradients at the end, or early",
                     {},
                     {},
                     {},
                     false,
                     true};
    one.model.name = "chain-2";
    one.model.schedule = "interleaved-1f1b";
    one.model.microbatches = options.microbatches > 0 ? options.microbatches : 8;
    one.model.pass_seconds = 0.04;
    one.model.transfer_ratio = 0.1;
    one.model.replicas = 2;
    one.model.reduction_ratio = ratio;
    for (const Lowering lowering : {Lowering::kLanes, Lowering::kSafe}) {
      for (const Reductions reductions : {Reductions::kAtTheEnd, Reductions::kEarly})
        one.arms.push_back(
            {one.model.schedule, ReshardAlgorithm::kWeft, lowering, Payload::kTensors, reductions});
    }
    cases.push_back(std::move(one));
  }
}

/// Adds a large vocabulary, with the output layer on the last stage or shared by all (arXiv
/// 2411.05288).
void append_vocabularies(std::vector<PipelineCase>& cases, const PipelineBenchOptions& options) {
  const auto add = [&](std::int64_t sequence, std::int64_t thousands, std::vector<Arm> arms,
                       const std::string& name, const std::string& text) {
    PipelineCase one{name, name.substr(0, name.rfind('-')), text, {}, {}, std::move(arms)};
    one.model.name = "gpt-4b";
    one.model.sequence = sequence;
    one.model.vocabulary = thousands * 1024;
    one.model.microbatches = options.microbatches > 0 ? options.microbatches
                             : options.quick          ? 16
                                                      : 0;
    one.on_request_only = true;
    one.model_per_arm = true;
    cases.push_back(std::move(one));
  };
  for (const int stages : {2, 4}) {
    std::vector<Arm> arms;
    for (const Arm& arm : vocabulary_arms(Payload::kTensors))
      if (!arm.redistributed && arm.schedule == "1f1b" &&
          arm.vocabulary != mesh::VocabularyMode::kInterlaced)
        arms.push_back(arm);
    PipelineCase one{fmt::format("vocab-real-{}", stages),
                     "vocab-real",
                     "real compute: a vocabulary of 16 k rows, shared or on the last stage",
                     {},
                     {},
                     std::move(arms)};
    one.model.name = "gpt-real-vocab";
    one.model.stages = stages;
    one.model.microbatches = options.microbatches;
    one.model.link_rate_bits = 10e9;
    one.on_request_only = true;
    one.model_per_arm = true;
    cases.push_back(std::move(one));
  }
  // Links over which the output of the last stage takes a quarter of a stage's forward.
  std::vector<Arm> over_links;
  for (const auto& [schedule, mode, payload] :
       {std::tuple("1f1b", mesh::VocabularyMode::kInterlaced, Payload::kTensors),
        std::tuple("1f1b", mesh::VocabularyMode::kVocab2, Payload::kTensors),
        std::tuple("eager-1f1b", mesh::VocabularyMode::kVocab2, Payload::kTensors),
        std::tuple("eager-1f1b", mesh::VocabularyMode::kVocab2, Payload::kSignals)}) {
    Arm arm{schedule, ReshardAlgorithm::kWeft, Lowering::kLanes, payload};
    arm.vocabulary = mode;
    over_links.push_back(arm);
  }
  add(2048, 64, over_links, "vocab-links-64k",
      "the same over links that X takes a quarter of F for");
  cases.back().model.transfer_ratio = 0.25;
  // Slow, so that tensors outweigh the bursts that shaped links allow.
  cases.back().model.time_scale = 0.25;
  cases.back().model.byte_scale = 16;
  for (const std::int64_t thousands : {32, 64, 128, 256}) {
    add(2048, thousands, vocabulary_arms(Payload::kSignals), fmt::format("vocab-{}k", thousands),
        "a GPT of 4 B parameters whose vocabulary all stages share, or the last has alone; links "
        "that cost nothing");
    add(4096, thousands, vocabulary_arms(Payload::kSignals), fmt::format("vocab-4k-{}k", thousands),
        "the same with sequences of 4096 tokens");
  }
}

}  // namespace

std::vector<PipelineCase> all_pipeline_cases(const PipelineBenchOptions& options) {
  std::vector<PipelineCase> cases;
  append_papers(cases, options);
  append_real(cases, options);
  append_real_bubble(cases, options);
  append_chains(cases, options);
  append_reductions(cases, options);
  append_vocabularies(cases, options);
  return cases;
}

std::vector<PipelineCase> pipeline_cases(const PipelineBenchOptions& options) {
  std::vector<PipelineCase> cases;
  const std::vector<PipelineCase> all = all_pipeline_cases(options);
  if (options.cases.empty()) {
    std::copy_if(all.begin(), all.end(), std::back_inserter(cases),
                 [](const PipelineCase& one) { return !one.on_request_only; });
    return cases;
  }
  for (const std::string& wanted : options.cases) {
    const std::size_t before = cases.size();
    std::copy_if(all.begin(), all.end(), std::back_inserter(cases), [&](const PipelineCase& one) {
      return one.name == wanted || one.group == wanted;
    });
    if (cases.size() > before) continue;
    std::vector<std::string> groups, names;
    for (const PipelineCase& one : all) {
      if (std::ranges::find(groups, one.group) == groups.end()) groups.push_back(one.group);
      names.push_back(one.name);
    }
    names.insert(names.end(), groups.begin(), groups.end());
    throw_error(ErrorCode::kInvalidArgument, "there is no case '{}'; there are {} (see --list){}",
                wanted, fmt::join(groups, ", "), did_you_mean(wanted, names));
  }
  return cases;
}

}  // namespace weft::apps
