#include "apps/gpt/gpt_app.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/data/text_batches.h"
#include "apps/data/text_dataset.h"
#include "apps/gpt/generate.h"
#include "apps/run_files/progress_display.h"
#include "apps/train/app_sections.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/base/sha256.h"

namespace weft::apps {

ModelDescription GptApp::read(const ConfigNode& root, const BatchShape& batch, std::uint64_t seed) {
  seed_ = seed;
  AppSections sections(root);
  sections.read("model", [&] { shape_ = parse_gpt(root.at("model")); });
  sections.read("data", [&] {
    if (root.has("data")) data_ = parse_text_data(root.at("data"));
  });
  sections.read("sample", [&] {
    if (root.has("sample")) sample_ = parse_sample(root.at("sample"));
  });
  sections.finish();
  shape_.batch = batch.rows_per_microbatch;
  shape_.vocabulary = data_.vocabulary;
  const GptGraph gpt =
      gpt_graph(shape_, 1.0 / (batch.microbatches * shape_.batch * shape_.sequence));
  return {.graphs = {differentiate(gpt.graph, gpt.loss), gpt.graph, gpt.loss},
          .text = fmt::format(
              "GPT: {} layers, width {}, {} heads, sequence {}, {:.2f} M parameters, {}",
              shape_.layers, shape_.width, shape_.heads, shape_.sequence,
              gpt.graph.num_parameter_elements() * 1e-6, to_string(shape_.precision)),
          .data = fmt::format("{}, {}", data_.text == "kjv" ? "the King James Version" : data_.text,
                              data_.tokenizer == TextDataConfig::TokenizerKind::kBytes
                                  ? "byte values"
                                  : fmt::format("{} pieces", data_.vocabulary)),
          .units_per_row = shape_.sequence,
          .unit = "tokens"};
}

PreparedData GptApp::prepare() {
  // shared with the sampler below
  const auto dataset = std::make_shared<const TextDataset>(TextDataset::prepare(data_));
  const TokenWindows windows(dataset->train, static_cast<int>(shape_.sequence), seed_,
                             data_.subset);
  const auto& sampler = windows.sampler();
  const TextBatchesRecipe recipe{.data = data_,
                                 .folder = dataset->folder.string(),
                                 .train_sha256 = dataset->train.sha256(),
                                 .validation_sha256 = dataset->validation.sha256(),
                                 .subset_digest = sampler ? sampler->subset_digest() : "",
                                 .sequence = static_cast<int>(shape_.sequence),
                                 .rows_per_microbatch = shape_.batch,
                                 .seed = seed_};
  const std::string what = fmt::format("gpt|{}|{}|{}|{}|{}|{}|{}|{}", shape_.layers, shape_.width,
                                       shape_.heads, shape_.sequence, shape_.vocabulary,
                                       recipe.train_sha256, recipe.validation_sha256, seed_) +
                           (shape_.tied_embeddings ? "|tied" : "") +
                           (sampler ? "|" + sampler->subset_digest() : "");
  const std::string chosen =
      sampler
          ? fmt::format(", in {} of {} pieces ({})", with_thousands(sampler->size()),
                        with_thousands(windows.num_disjoint_windows()), data_.subset.description())
          : "";
  return {.text = fmt::format(
              "{}: {} tokens to train on{}, {} held out; {} {}",
              data_.text == "kjv" ? "the King James Version" : data_.text,
              with_thousands(dataset->train.size()), chosen,
              with_thousands(dataset->validation.size()), dataset->train.vocabulary(),
              data_.tokenizer == TextDataConfig::TokenizerKind::kBytes ? "byte values" : "pieces"),
          .batches = encode(recipe),
          .digest = sha256(std::as_bytes(std::span(what))),
          .baseline = {dataset->unigram_loss, "a unigram model"},
          .show = [shape = shape_, sample = sample_, seed = seed_,
                   dataset](const ShowRequest& request) {
            FinalReport report{.title = "the model writes"};
            if (sample.tokens == 0) return report;
            report.text = generate(request.device, shape, request.trained.parameters,
                                   *dataset->tokenizer, sample, seed, request.stop);
            return report;
          }};
}

std::unique_ptr<mesh::BatchSource> GptApp::open_batches(std::span<const std::byte> batches) const {
  return std::make_unique<TextBatches>(decode<TextBatchesRecipe>(batches));
}

}  // namespace weft::apps
