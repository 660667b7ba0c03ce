#include "tests/simulation/tiny_training.h"

#include <fmt/format.h>

#include <numeric>
#include <set>

#include "core/base/error.h"

namespace weft::simulation {
namespace {

constexpr auto kComputes = std::chrono::milliseconds(10);
constexpr double kRate = 0.05;
constexpr int kPlantedStep = 20;

double gradient(double weight, int rank, int step) {
  return (weight - rank) * (1 + 0.01 * (step % 7));
}

/// A device of the tiny training. Fails where a step comes twice or is left out.
class TinyTrainer final {
 public:
  using Arguments = std::tuple<>;
  TinyTrainer(actors::Context& context, Plant plant) : context_(context), plant_(plant) {}

  void meet(std::vector<actors::ActorAddress> all) { all_ = std::move(all); }
  double weight() const { return weight_; }
  actors::ActorAddress address() const { return context_.self(); }
  actors::task<double> step(int step) {
    if (step != next_)
      throw_error(ErrorCode::kInternal, "VIOLATION: step {} runs where {} is the next", step,
                  next_);
    ++next_;
    co_await context_.sleep(kComputes);
    const int rank = context_.place().rank;
    const actors::ActorAddress& neighbour = all_.at((rank + 1) % all_.size());
    // Its weight is that of this step until the driver says update.
    double other = weight_;
    if (all_.size() > 1) {
      auto asked = context_.system().ref<TinyTrainer>(neighbour).call<&TinyTrainer::weight>();
      other = co_await asked;
    }
    co_return gradient((weight_ + other) / 2, rank, step);
  }
  void update(double sum) {
    if (plant_ == Plant::kLosesUpdate && next_ == kPlantedStep) return;
    weight_ -= kRate * sum;
  }

  static constexpr auto endpoints = actors::interface<"simulation.trainer", 1>(
      actors::on<&TinyTrainer::meet>("meet"), actors::on<&TinyTrainer::address>("address"),
      actors::on<&TinyTrainer::weight>("weight", actors::urgent),
      actors::on<&TinyTrainer::step>("step"), actors::on<&TinyTrainer::update>("update"));

 private:
  actors::Context& context_;
  const Plant plant_;
  double weight_ = 1;
  int next_ = 0;
  std::vector<actors::ActorAddress> all_;
};

void record_owners(ClusterWorld& world, Records& records, actors::Cluster& cluster) {
  const actors::ClusterStatus status = cluster.status();
  if (!records.cluster.empty() && records.cluster != status.cluster)
    records.violations.push_back("the head has forgotten its cluster's id");
  if (status.term < records.term)
    records.violations.push_back(fmt::format("term {} comes after {}", status.term, records.term));
  records.cluster = status.cluster;
  records.term = status.term;
  // The owner is the one that asks: it has the newest.
  for (const actors::MeshStatus& mesh : status.meshes) {
    if (mesh.state == "failed") continue;
    const std::pair now(status.term, mesh.key.epoch);
    auto& last = records.last_epochs[mesh.key.name];
    if (now <= last)
      records.violations.push_back(
          fmt::format("epoch {} of term {} of mesh {} comes after {} of {}", now.second, now.first,
                      mesh.key.name, last.second, last.first));
    last = std::max(last, now);
  }
  for (const actors::HostStatus& host : status.hosts) {
    for (std::size_t device = 0; device < host.device_users.size(); ++device) {
      const std::string& user = host.device_users[device];
      const auto pid_at = user.find(" pid ");
      if (pid_at == std::string::npos) continue;
      const int pid = std::stoi(user.substr(pid_at + 5));
      Records::Owner& owner =
          records.device_owners[fmt::format("{} device {}", host.offer.name, device)];
      if (owner.process != pid && world.alive(owner.process) && world.alive(pid))
        records.violations.push_back(
            fmt::format("{} device {} has two owners: {} (process {}) and {}", host.offer.name,
                        device, world.label_of(owner.process), owner.process, user));
      owner.process = pid;
    }
  }
}

int train(ClusterWorld& world, Records& records, const TinyOptions& options,
          actors::Cluster& cluster, const std::string& name) {
  auto trainers = cluster.spawn<TinyTrainer>("train", {{"data", options.devices}}, {});
  record_owners(world, records, cluster);
  trainers.call<&TinyTrainer::meet>(trainers.call<&TinyTrainer::address>().get()).get();
  for (int step = 0; step < options.steps; ++step) {
    const std::vector<double> parts = trainers.call<&TinyTrainer::step>(step).get();
    cluster.report_progress({step, options.steps, 0, 0, "steps", 0});
    if (options.plant == Plant::kRunsStepTwice && step == kPlantedStep)
      trainers.call<&TinyTrainer::step>(step).get();
    trainers.call<&TinyTrainer::update>(std::accumulate(parts.begin(), parts.end(), 0.0)).get();
  }
  const std::vector<double> weights = trainers.call<&TinyTrainer::weight>().get();
  if (std::set(weights.begin(), weights.end()).size() != 1)
    records.violations.push_back("devices differ at the end");
  records.runs[name].loss = weights.front();
  return 0;
}

}  // namespace

double expected_loss(const TinyOptions& options) {
  double weight = 1;
  for (int step = 0; step < options.steps; ++step) {
    double sum = 0;
    for (int rank = 0; rank < options.devices; ++rank) sum += gradient(weight, rank, step);
    weight -= kRate * sum;
  }
  return weight;
}

int tiny_main(ClusterWorld& world, Records& records, const TinyOptions& options,
              const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  actors::AppMain app(static_cast<int>(pointers.size()), pointers.data());
  app.provide<TinyTrainer>([plant = options.plant](actors::Context& context) {
    return std::make_unique<TinyTrainer>(context, plant);
  });
  return app.run([&](actors::Cluster& cluster, const actors::AppRun& run) {
    const std::string name = run.out.filename().string();
    records.runs[name].begun = true;
    try {
      const int status = train(world, records, options, cluster, name);
      records.runs[name].done = true;
      return status;
    } catch (const Error& error) {
      records.runs[name].error =
          cluster.failure(std::chrono::milliseconds(500)).value_or(error).message();
      throw;
    }
  });
}

}  // namespace weft::simulation
