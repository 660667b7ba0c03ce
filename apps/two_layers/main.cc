// Complete training app: two layers learn x * y. Run `weft run apps/two_layers/two_layers.yaml`.
#include <cmath>
#include <cstring>

#include "apps/train/app_sections.h"
#include "apps/train/serve_training.h"
#include "core/autodiff/differentiate.h"
#include "core/base/philox.h"
#include "core/codec/codec.h"
#include "core/ops/graph_builder.h"

using namespace weft;

/// Points (x, y) and products x * y. A row has the same values on all devices that compute it.
class Points final : public mesh::BatchSource {
 public:
  explicit Points(std::uint64_t seed) : seed_(seed) {}
  void read(std::string_view input, mesh::Split split, std::uint64_t step, int microbatch, int,
            const Region& region, std::span<std::byte> out) override {
    std::vector<float> values;
    for (std::int64_t row = region[0].begin; row < region[0].end; ++row) {
      const std::uint64_t batch = (split == mesh::Split::kTrain ? 0ULL : 1ULL << 40) + step;
      const auto words = philox(seed_, (batch << 20) + microbatch, row);
      const float point[] = {2 * uniform_float(words[0]) - 1, 2 * uniform_float(words[1]) - 1};
      for (std::int64_t column = region[1].begin; column < region[1].end; ++column)
        values.push_back(input == "points" ? point[column] : point[0] * point[1]);
    }
    std::memcpy(out.data(), values.data(), out.size());
  }

 private:
  std::uint64_t seed_;
};

class TwoLayers final : public apps::TrainingApp {
 public:
  std::string name() const override { return "two_layers"; }
  apps::ModelDescription describe_model(const ConfigNode& root, const apps::BatchShape& batch,
                                        std::uint64_t seed) override {
    std::int64_t width = 32, rows = batch.rows_per_microbatch;
    apps::AppSections sections(root);
    sections.read("model", [&] {
      const ConfigNode model = root.at("model", "Sizes of the two layers");
      model.read("width", width, "Width between the layers", {.min = 1, .max = 1 << 20});
      model.finish();
    });
    sections.finish();
    seed_ = seed;
    GraphBuilder b;
    const auto points = b.input("points", {DType::kF32, {rows, 2}}, {"batch", "plane"});
    const auto values = b.input("values", {DType::kF32, {rows, 1}}, {"batch", "value"});
    const auto w0 = b.parameter("w0", {2, width}, normal(0.7), {"plane", "mlp"});
    const auto b0 = b.parameter("b0", {width}, zeros(), {"mlp"}, false);
    const auto hidden = b.gelu(b.linear(points, w0, b0));
    b.set_block(1);  // the second layer may be a stage of its own
    const auto w1 = b.parameter("w1", {width, 1}, normal(0.2), {"mlp", "value"});
    // Scales losses so that those of all microbatches add up to the mean of the step.
    const double scale = 1.0 / (rows * batch.microbatches);
    const auto loss = b.squared_error(b.linear(hidden, w1), values, scale);
    const Graph graph = std::move(b).finish();
    return {.graphs = {differentiate(graph, loss), graph, loss},
            .text = "2 layers, width " + std::to_string(width),
            .unit = "points"};
  }
  apps::PreparedData prepare_data() override {
    const apps::Baseline zero{1.0 / 9, "always 0"};
    return {.text = "x * y", .batches = encode(seed_), .digest = name(), .baseline = zero};
  }
  std::unique_ptr<mesh::BatchSource> open_batches(std::span<const std::byte> seed) const override {
    return std::make_unique<Points>(decode<std::uint64_t>(seed));
  }

 private:
  std::uint64_t seed_ = 0;
};

int main(int argc, char** argv) {
  TwoLayers app;
  return apps::serve_training(argc, argv, app);
}
