// A pool of workers that estimate pi. map() gives a worker its next batch when it ends one; a batch
// whose worker dies is done again.
#include <fmt/format.h>

#include <cstdint>
#include <random>
#include <vector>

#include "actors/launch/app_main.h"

using namespace weft::actors;

/// Random points from a seed.
struct Batch {
  std::uint32_t seed = 0;
  int points = 0;
  static constexpr auto fields = weft::fields(&Batch::seed, &Batch::points);
};

struct Sampler {
  explicit Sampler(Context&) {}
  /// Returns the number of points in the quarter of the unit circle. May run twice.
  int inside(Batch batch) {
    ++batches;
    std::mt19937 random(batch.seed);
    int count = 0;
    for (int i = 0; i < batch.points; ++i) {
      const double x = random() / 4294967296.0;
      const double y = random() / 4294967296.0;
      if (x * x + y * y < 1) ++count;
    }
    return count;
  }
  int batches_done() const { return batches; }
  static constexpr auto endpoints = interface<"examples.sampler", 1>(
      on<&Sampler::inside>("inside", idempotent), on<&Sampler::batches_done>("batches_done"));
  int batches = 0;
};

int main(int argc, char** argv) {
  AppMain app(argc, argv);
  app.provide<Sampler>();
  return app.run([](Cluster& cluster, const AppRun&) {
    const auto pool = cluster.spawn<Sampler>("pool", {{"worker", 3}}, {.restarts = 3});
    std::vector<Batch> batches;
    for (std::uint32_t seed = 0; seed < 64; ++seed) batches.push_back({seed, 20'000});
    double inside = 0;
    for (auto&& [batch, result] : pool.map<&Sampler::inside>(batches)) inside += result.value();
    fmt::print("pi = {:.2f}\n", 4 * inside / (64 * 20'000));
    fmt::print("batches: {}\n", pool.reduce<&Sampler::batches_done>(sum).get());
    return 0;
  });
}
