#include "tests/simulation/tiny_training.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "actors/launch/run_supervisor.h"
#include "actors/launch/token.h"
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

  void go_back(int step, double weight) {
    next_ = step;
    weight_ = weight;
  }

  static constexpr auto endpoints = actors::interface<"simulation.trainer", 1>(
      actors::on<&TinyTrainer::go_back>("go_back"), actors::on<&TinyTrainer::meet>("meet"),
      actors::on<&TinyTrainer::address>("address"),
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
    if (mesh.state == "failed" || mesh.state == "ending") continue;
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

/// What a driver keeps, and its devices.
class TinyDriver final {
 public:
  TinyDriver(ClusterWorld& world, Records& records, Records::Run& run, const TinyOptions& options,
             actors::Cluster& cluster, bool restarted)
      : world_(world),
        records_(records),
        run_(run),
        options_(options),
        cluster_(cluster),
        begun_(restarted),
        restarted_(restarted) {
    if (options_.recovers) cluster_.survive_deaths();
  }

  double run() {
    std::optional<Error> error;
    while (true) {
      try {
        if (error || !trainers_) begin();
        return train();
      } catch (const Error& thrown) {
        error = cluster_.failure(std::chrono::milliseconds(500)).value_or(thrown);
      }
      if (!options_.recovers || !passes(*error)) throw Error(*error);
      cluster_.forgive();
      cluster_.wait_for_change(std::chrono::milliseconds(50));
    }
  }

 private:
  static constexpr int kKeepEvery = 10;

  static bool passes(const Error& error) {
    switch (error.code()) {
      case ErrorCode::kPeerDied:
      case ErrorCode::kUnavailable:
      case ErrorCode::kDeadlineExceeded:
      case ErrorCode::kResourceExhausted:
      case ErrorCode::kNotFound:
      case ErrorCode::kStaleEpoch: return true;
      default: return false;
    }
  }

  void find_key() {
    key_ = {};
    for (const actors::MeshStatus& mesh : cluster_.status().meshes)
      if (mesh.key.name == "train" && mesh.key.epoch > key_.epoch) key_ = mesh.key;
  }

  /// Spawns the devices, or takes over those of the driver before this one, or replaces those that
  /// died, and sets all to the state that was kept.
  void begin() {
    std::set<std::uint32_t> all_but_living;
    if (std::exchange(restarted_, false))
      trainers_ = cluster_.take_over<TinyTrainer>(key_, "train", {{"data", options_.devices}});
    if (!trainers_) {
      trainers_.emplace(cluster_.spawn<TinyTrainer>("train", {{"data", options_.devices}}, {}));
      find_key();
    } else {
      const auto answers =
          trainers_->within(std::chrono::seconds(10)).call_collect<&TinyTrainer::weight>().get();
      for (std::size_t rank = 0; rank < answers.size(); ++rank)
        if (!answers[rank].ok()) all_but_living.insert(static_cast<std::uint32_t>(rank));
      try {
        const auto renewed = cluster_.renew<TinyTrainer>(*trainers_, key_, {}, all_but_living);
        if (!renewed.missing.empty()) throw Error(ErrorCode::kUnavailable, renewed.problem);
      } catch (const Error& error) {
        if (error.code() == ErrorCode::kNotFound) trainers_.reset();  // all of it is gone
        throw;
      }
    }
    record_owners(world_, records_, cluster_);
    trainers_->call<&TinyTrainer::meet>(trainers_->call<&TinyTrainer::address>().get()).get();
    if (!std::exchange(begun_, true)) return;
    if (options_.plant != Plant::kKeepsOldState)
      trainers_->call<&TinyTrainer::go_back>(run_.kept_step, run_.kept_weight).get();
    else
      for (const std::uint32_t rank : all_but_living)
        trainers_->rank(rank).call<&TinyTrainer::go_back>(run_.kept_step, run_.kept_weight).get();
    step_ = run_.kept_step;
  }

  double train() {
    auto& trainers = *trainers_;
    for (; step_ < options_.steps; ++step_) {
      if (step_ % kKeepEvery == 0 && options_.recovers) {
        const double weight = trainers.rank(0).call<&TinyTrainer::weight>().get();
        run_.kept_weight = weight;
        run_.kept_step = step_;
      }
      const std::vector<double> parts = trainers.call<&TinyTrainer::step>(step_).get();
      cluster_.report_progress({step_, options_.steps, 0, 0, "steps", 0});
      if (options_.plant == Plant::kRunsStepTwice && step_ == kPlantedStep)
        trainers.call<&TinyTrainer::step>(step_).get();
      trainers.call<&TinyTrainer::update>(std::accumulate(parts.begin(), parts.end(), 0.0)).get();
    }
    const std::vector<double> weights = trainers.call<&TinyTrainer::weight>().get();
    if (std::set(weights.begin(), weights.end()).size() != 1)
      records_.violations.push_back("devices differ at the end");
    return weights.front();
  }

  ClusterWorld& world_;
  Records& records_;
  Records::Run& run_;
  const TinyOptions& options_;
  actors::Cluster& cluster_;
  std::optional<actors::ActorMesh<TinyTrainer>> trainers_;
  actors::MeshKey key_;
  bool begun_, restarted_;
  int step_ = 0;
};

int train(ClusterWorld& world, Records& records, const TinyOptions& options,
          actors::Cluster& cluster, Records::Run& run, bool restarted) {
  TinyDriver driver(world, records, run, options, cluster, restarted);
  run.loss = driver.run();
  return 0;
}

constexpr const char* kWeftRun = "--weft-run";

/// What it says last stands among the run's events.
std::string last_words(const std::filesystem::path& out) {
  std::ifstream events(out / "events.jsonl");
  std::string words;
  for (std::string line; std::getline(events, line);)
    if (const auto event = nlohmann::json::parse(line); event.at("kind") == "failed")
      words = event.at("cause");
  return words;
}

int supervise(Records& records, const std::vector<std::string>& words) {
  const std::string file = words.at(2);
  const std::string head = words.at(3);
  const std::filesystem::path out = words.at(4);
  Records::Run& run = records.runs[out.filename().string()];
  run.status =
      actors::supervise_run({.header = actors::parse_run_header(ConfigDocument::load(file), {}),
                             .run_file = file,
                             .overrides = {},
                             .head = head,
                             .out = out,
                             .checked = "tiny",
                             .token = records.token});
  if (run.status != 0) run.error = last_words(out);
  return *run.status;
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

std::vector<std::string> run_words(const std::string& run_file, const std::string& head,
                                   const std::string& out) {
  return {"weft", kWeftRun, run_file, head, out};
}

int tiny_main(ClusterWorld& world, Records& records, const TinyOptions& options,
              const std::vector<std::string>& arguments) {
  std::vector<std::string> words = arguments;
  if (words.at(1) == kWeftRun) return supervise(records, words);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  actors::AppMain app(static_cast<int>(pointers.size()), pointers.data());
  app.provide<TinyTrainer>([plant = options.plant](actors::Context& context) {
    return std::make_unique<TinyTrainer>(context, plant);
  });
  return app.run([&](actors::Cluster& cluster, const actors::AppRun& run) {
    Records::Run& record = records.runs[run.out.filename().string()];
    record.begun = true;
    try {
      const int status = train(world, records, options, cluster, record, run.restart > 0);
      record.done = true;
      return status;
    } catch (const Error& error) {
      record.error =
          options.plant == Plant::kTellsNoCause
              ? "a call has failed"
              : cluster.failure(std::chrono::milliseconds(500)).value_or(error).message();
      throw;
    }
  });
}

}  // namespace weft::simulation
