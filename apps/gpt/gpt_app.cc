#include "apps/gpt/gpt_app.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/data/text_batches.h"
#include "apps/data/text_dataset.h"
#include "apps/data/text_files.h"
#include "apps/gpt/generate.h"
#include "apps/gpt/text_loss.h"
#include "apps/run_files/progress_display.h"
#include "apps/train/app_sections.h"
#include "core/autodiff/differentiate.h"
#include "core/base/error.h"
#include "core/base/sha256.h"
#include "core/base/utf8.h"

namespace weft::apps {
namespace {

/// Builds the final report: test losses if there is a test text, and a sample of generated text.
struct GptReportBuilder {
  GptShape shape;
  SampleConfig sample;
  std::uint64_t seed;
  std::shared_ptr<const TextDataset> dataset;  // holds the tokenizer
  std::vector<std::int32_t> test;

  FinalReport operator()(const ReportRequest& request) const {
    FinalReport report{.title = "the model writes"};
    if (!test.empty()) score(request, report);
    if (sample.tokens > 0)
      // Escapes control characters: a byte-level model may write any byte.
      report.text += printable(generate(request.device, shape, request.trained.parameters,
                                        *dataset->tokenizer, sample, seed, request.stop));
    return report;
  }

 private:
  void score(const ReportRequest& request, FinalReport& report) const {
    const TrainedValues& trained = request.trained;
    const auto add = [&](const std::vector<TensorView>& parameters, std::int64_t step,
                         const std::string& when) {
      const double loss = text_loss(request.device, shape, parameters, test, request.stop);
      report.text += fmt::format("test loss {:.4f} after step {}, the {} one\n", loss,
                                 with_thousands(step), when);
      report.figures.emplace_back(fmt::format("test_loss_at_{}_step", when), loss);
    };
    if (trained.best != nullptr) add(*trained.best, trained.best_step, "best");
    add(trained.parameters, trained.step, "last");
    report.title = "on a test text";
    report.prose = sample.tokens > 0;
    if (sample.tokens > 0) report.text += "and it writes:\n";
  }
};

/// State of the prepared texts that a restarted driver decodes instead of reading the texts again.
struct PreparedText {
  TextBatchesRecipe recipe = {};
  std::vector<std::int32_t> test = {};  ///< Tokens of data.test.

  static constexpr auto fields = weft::fields(&PreparedText::recipe, &PreparedText::test);
};

/// Returns "; 3 of the 870 tokens of data.test are unknown", or an empty string if none is. The
/// training text has no unknown tokens.
std::string unknown_text(const std::string& key, const Tokenizer& tokenizer,
                         std::span<const std::int32_t> tokens) {
  const std::size_t unknown = tokenizer.count_unknown(tokens);
  if (unknown == 0) return "";
  return fmt::format("; {} of the {} tokens of {} are unknown", with_thousands(unknown),
                     with_thousands(tokens.size()), key);
}

}  // namespace

ModelDescription GptApp::describe_model(const ConfigNode& root, const BatchShape& batch,
                                        std::uint64_t seed) {
  seed_ = seed;
  AppSections sections(root);
  sections.read("model", [&] { shape_ = parse_gpt(root.at("model", "Sizes of the GPT")); });
  sections.read("data", [&] {
    if (const auto data = root.find("data", "The text to train on")) data_ = parse_text_data(*data);
  });
  sections.read("sample", [&] {
    if (const auto sample = root.find("sample", "What the trained model writes at the end"))
      sample_ = parse_sample(*sample);
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

std::vector<std::int32_t> GptApp::test_tokens(const Tokenizer& tokenizer) const {
  if (data_.test.empty()) return {};
  std::vector<std::int32_t> tokens = tokenizer.encode(load_text(data_.test, text_form(data_)));
  if (std::ssize(tokens) <= shape_.sequence)
    throw_error(ErrorCode::kInvalidArgument,
                "data.test: the {} tokens of {} are fewer than model.sequence + 1 = {}: name a "
                "longer text",
                tokens.size(), data_.test, shape_.sequence + 1);
  return tokens;
}

PreparedData GptApp::prepare_data() {
  TextDataset dataset = TextDataset::prepare(data_);
  std::vector<std::int32_t> test = test_tokens(*dataset.tokenizer);
  return describe(std::move(dataset), std::move(test));
}

PreparedData GptApp::prepare_after_restart(std::span<const std::byte> restart_data) {
  PreparedText text = decode<PreparedText>(restart_data);
  return describe(open_dataset(text.recipe), std::move(text.test));
}

PreparedData GptApp::describe(TextDataset prepared, std::vector<std::int32_t> test) const {
  // Shared with the final report.
  const auto dataset = std::make_shared<const TextDataset>(std::move(prepared));
  const TokenWindows windows(dataset->train, static_cast<int>(shape_.sequence), seed_,
                             data_.subset);
  if (dataset->validation.size() <= static_cast<std::size_t>(shape_.sequence))
    throw_error(ErrorCode::kInvalidArgument,
                "{}: {} tokens are held out to validate on, fewer than model.sequence + 1 = {}: "
                "name a longer text, raise data.validation_fraction, or lower model.sequence",
                data_.text, dataset->validation.size(), shape_.sequence + 1);
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
  const std::string unknown =
      unknown_text("data.test", *dataset->tokenizer, test) +
      unknown_text("sample.prompt", *dataset->tokenizer,
                   dataset->tokenizer->encode(sample_.tokens > 0 ? sample_.prompt : ""));
  return {.text = fmt::format(
              "{}: {} tokens to train on{}, {} held out; {} {}{}",
              data_.text == "kjv" ? "the King James Version" : data_.text,
              with_thousands(dataset->train.size()), chosen,
              with_thousands(dataset->validation.size()), dataset->train.vocabulary(),
              data_.tokenizer == TextDataConfig::TokenizerKind::kBytes ? "byte values" : "pieces",
              unknown),
          .batches = encode(recipe),
          .digest = sha256(std::as_bytes(std::span(what))),
          .baseline = {dataset->unigram_loss, "a unigram model"},
          .report_on_model = GptReportBuilder{shape_, sample_, seed_, dataset, test},
          .restart_data = encode(PreparedText{recipe, test})};
}

std::unique_ptr<mesh::BatchSource> GptApp::open_batches(std::span<const std::byte> batches) const {
  return std::make_unique<TextBatches>(decode<TextBatchesRecipe>(batches));
}

}  // namespace weft::apps
