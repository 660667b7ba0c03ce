#include "apps/gpt/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/train/model_parameters.h"
#include "core/base/philox.h"
#include "core/evaluate/evaluation.h"

namespace weft::apps {
std::int32_t sample_token(std::span<const float> logits, double temperature, std::int64_t top_k,
                          double uniform) {
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
  if (temperature <= 0) return order.front();
  if (top_k > 0 && static_cast<std::size_t>(top_k) < order.size()) order.resize(top_k);
  const double largest = logits[order.front()];
  std::vector<double> sums;
  double sum = 0;
  for (std::int32_t id : order)
    sums.push_back(sum += std::exp((logits[id] - largest) / temperature));
  const auto chosen = std::upper_bound(sums.begin(), sums.end(), uniform * sum);
  return order[std::min<std::size_t>(chosen - sums.begin(), order.size() - 1)];
}

std::string generate(Device& device, const GptShape& shape,
                     const std::vector<TensorView>& parameters, const Tokenizer& tokenizer,
                     const SampleConfig& sample, std::uint64_t seed, const std::stop_token& stop) {
  GptShape one = shape;
  one.batch = 1;
  one.precision = DType::kF32;  // the optimizer's f32 values, not their rounded copies
  GptGraph gpt = gpt_graph(one, 1.0);
  Evaluation evaluation(device, gpt.graph, {gpt.logits});
  set_parameters(evaluation, parameters);
  std::vector<std::int32_t> ids = tokenizer.encode(sample.prompt);
  std::vector<std::int32_t> window(one.sequence);
  const std::size_t vocabulary = shape.vocabulary;
  PhiloxStream random(seed, fnv1a("sample", 6));
  for (std::int64_t i = 0; i < sample.tokens && !stop.stop_requested(); ++i) {
    const std::size_t used = std::min(ids.size(), window.size());
    std::ranges::fill(window, 0);  // later positions do not matter: attention is causal
    std::copy(ids.end() - used, ids.end(), window.begin());
    evaluation.write(gpt.tokens, window);
    evaluation.run();
    const auto logits =
        evaluation.read_part<float>(gpt.logits, (used - 1) * vocabulary, vocabulary);
    const double uniform = (random() >> 11) * 0x1p-53;
    ids.push_back(sample_token(logits, sample.temperature, sample.top_k, uniform));
  }
  return tokenizer.decode(ids);
}

}  // namespace weft::apps
