// Rollout workers and a learner, by evolution strategies: each round the learner shares its weights
// as an object, of which each host gets one copy. Only seeds and rewards travel in messages.
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <tuple>
#include <vector>

#include "actors/launch/app_main.h"
#include "mesh/objects/objects.h"

using namespace weft::actors;
using weft::mesh::ObjectRef;
using Weights = std::vector<double>;

Weights noise_of(std::uint32_t seed, std::size_t size) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 0.1);
  Weights noise(size);
  for (double& each : noise) each = normal(random);
  return noise;
}

struct Player {
  explicit Player(Context& context) : objects(context) {}
  /// Returns how much better the weights are with the noise of `seed` added than subtracted.
  task<double> play(ObjectRef<Weights> ref, std::uint32_t seed) {
    const auto weights = co_await objects.get(ref);
    const Weights noise = noise_of(seed, weights.span().size());
    double gain = 0;  // the best weights are sin(0), sin(1), ...
    for (std::size_t i = 0; i < noise.size(); ++i)
      gain -= 4 * noise[i] * (weights.span()[i] - std::sin(static_cast<double>(i)));
    co_return gain;
  }
  static constexpr auto endpoints =
      interface<"examples.rollout", 1>(on<&Player::play>("play", idempotent));
  weft::mesh::Objects objects;
};

int main(int argc, char** argv) {
  AppMain app(argc, argv);
  app.provide<Player>();
  return app.run([](Cluster& cluster, const AppRun&) {
    const auto workers = cluster.spawn<Player>("workers", {{"worker", 4}}, {.restarts = 3});
    weft::mesh::Objects objects(cluster);
    Weights weights(16);
    for (std::uint32_t round = 0; round < 100; ++round) {
      const auto shared = objects.put(weights).get();
      std::vector<std::tuple<ObjectRef<Weights>, std::uint32_t>> episodes;
      for (std::uint32_t i = 0; i < 32; ++i) episodes.emplace_back(shared.ref(), round * 32 + i);
      for (auto&& [episode, gain] : workers.map<&Player::play>(episodes)) {
        const Weights noise = noise_of(std::get<1>(episodes[episode]), weights.size());
        for (std::size_t i = 0; i < noise.size(); ++i) weights[i] += gain.value() * noise[i] / 8;
      }
    }
    fmt::print("weights: {:.3f} {:.3f} {:.3f} ...\n", weights[0], weights[1], weights[2]);
    return 0;
  });
}
