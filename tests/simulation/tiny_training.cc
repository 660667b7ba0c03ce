#include "tests/simulation/tiny_training.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "actors/access/token.h"
#include "actors/head/head.h"
#include "actors/launch/run_supervisor.h"
#include "actors/recovery/run_recovery.h"
#include "core/base/error.h"

namespace weft::simulation {
namespace {

constexpr auto kComputes = std::chrono::milliseconds(10);
constexpr double kRate = 0.05;
constexpr int kPlantedStep = 20;

double gradient(double weight, int rank, int step) {
  return (weight - rank) * (1 + 0.01 * (step % 7));
}

/// Device of the tiny training. Fails if a step is repeated or left out.
class TinyTrainer final {
 public:
  using Arguments = std::tuple<>;
  TinyTrainer(actors::Context& context, Plant plant) : context_(context), plant_(plant) {}

  /// Sets the addresses of all actors. `first` is the first rank of this actor's mesh among them.
  void meet(std::vector<actors::ActorAddress> all, int first) {
    all_ = std::move(all);
    rank_ = first + static_cast<int>(context_.place().rank);
  }
  double weight() const { return weight_; }
  actors::ActorAddress address() const { return context_.self(); }
  actors::task<double> step(int step) {
    if (step != next_)
      throw_error(ErrorCode::kInternal, "VIOLATION: step {} runs where {} is the next", step,
                  next_);
    ++next_;
    co_await context_.sleep(kComputes);
    const actors::ActorAddress& neighbour = all_.at((rank_ + 1) % all_.size());
    // The neighbour's weight belongs to this step until the driver calls update().
    double other = weight_;
    if (all_.size() > 1) {
      auto asked = context_.system().ref<TinyTrainer>(neighbour).call<&TinyTrainer::weight>();
      other = co_await asked;
    }
    co_return gradient((weight_ + other) / 2, rank_, step);
  }
  void update(double sum) {
    if (plant_ == Plant::kLosesUpdate && next_ == kPlantedStep) return;
    weight_ -= kRate * sum;
  }

  void rollback(int step, double weight) {
    next_ = step;
    weight_ = weight;
  }

  static constexpr auto endpoints = actors::interface<"simulation.trainer", 1>(
      actors::on<&TinyTrainer::rollback>("rollback"), actors::on<&TinyTrainer::meet>("meet"),
      actors::on<&TinyTrainer::address>("address"),
      actors::on<&TinyTrainer::weight>("weight", actors::urgent),
      actors::on<&TinyTrainer::step>("step"), actors::on<&TinyTrainer::update>("update"));

 private:
  actors::Context& context_;
  const Plant plant_;
  double weight_ = 1;
  int next_ = 0;
  int rank_ = 0;  // rank among all actors
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
  // The calling driver owns these meshes, so its epochs must be the newest.
  for (const actors::MeshStatus& mesh : status.meshes) {
    if (mesh.state == "failed" || mesh.state == "ending") continue;
    const std::pair now(status.term, mesh.key.epoch);
    auto& last = records.last_epochs[mesh.key.name];
    // Supervised actors are not renewed by each recovery.
    if (now < last || (now == last && mesh.key.name.starts_with("train")))
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

/// Driver of the tiny training, with its saved state and its meshes of devices.
class TinyDriver final : private actors::RunMeshes {
 public:
  TinyDriver(ClusterWorld& world, Records& records, Records::Run& run, const TinyOptions& options,
             actors::Cluster& cluster, const actors::AppRun& app)
      : world_(world),
        records_(records),
        run_(run),
        options_(options),
        cluster_(cluster),
        begun_(app.restart > 0),
        restarted_(app.restart > 0),
        recovery_(cluster, recovery_options(options, app)) {
    if (options.has_service)
      service_.emplace(records.service, cluster, options.plant, options.calm);
    if (options.has_objects)
      objects_.emplace(records.objects, world, cluster, !records.is_disturbed);
    if (options.has_rooms)
      rooms_.emplace(records.rooms, world, cluster,
                     TinyRooms::Options{options.plant, app.out.filename().string(),
                                        options.joined.size() + options.spares.size(),
                                        records.is_disturbed, records.may_forget});
  }

  double run() {
    std::optional<Error> error;
    try {
      begin();
      return train();
    } catch (const Error& thrown) {
      error = cluster_.failures().first(std::chrono::milliseconds(500)).value_or(thrown);
    }
    while (true) {
      if (!recovery_.recovers_from(*error)) throw Error(*error);
      recovery_.recover(*error, *this, [this] { connect(); });  // its errors end the run
      try {
        return train();
      } catch (const Error& thrown) {
        error = cluster_.failures().first(std::chrono::milliseconds(500)).value_or(thrown);
      }
    }
  }

 private:
  static constexpr int kKeepEvery = 10;
  using Trainers = actors::ActorMesh<TinyTrainer>;

  static actors::RunRecoveryOptions recovery_options(const TinyOptions& options,
                                                     const actors::AppRun& app) {
    actors::RunRecoveryOptions recovery;
    recovery.config.restarts = options.recovers ? 1000 : 0;
    recovery.config.spares = options.spares;
    recovery.hosts = options.joined;
    recovery.restart_budget_path = app.restarts;
    recovery.reconnect_on_failed_calls = true;
    return recovery;
  }

  // Implements RunMeshes.
  std::vector<Wanted> wanted() const override {
    if (options_.hosts.empty()) return {{"train", {{"data", options_.devices}}, {}}};
    std::vector<Wanted> wanted;
    const auto part = options_.devices / std::ssize(options_.hosts);
    for (const std::string& host : options_.hosts)
      wanted.push_back({"train-" + host, {{"data", part}}, {host}});
    return wanted;
  }
  std::vector<actors::MeshKey> keys() const override { return keys_; }
  std::vector<std::set<std::uint32_t>> find_broken() override {
    std::vector<std::set<std::uint32_t>> broken;
    for (const Trainers& mesh : trainers_) {
      const auto answers =
          mesh.within(std::chrono::seconds(10)).call_collect<&TinyTrainer::weight>().get();
      broken.emplace_back();
      for (std::size_t rank = 0; rank < answers.size(); ++rank)
        if (!answers[rank].ok()) broken.back().insert(static_cast<std::uint32_t>(rank));
    }
    return broken;
  }
  void start_next(const actors::MeshPlacement& where) override {
    const Wanted mesh = wanted().at(trainers_.size());
    actors::MeshKey key;
    trainers_.push_back(cluster_.spawn<TinyTrainer>(
        key, mesh.name, mesh.shape, actors::SpawnOptions{.place = where, .needs = {.devices = 1}}));
    keys_.push_back(key);
    fresh_.emplace_back();
    for (std::int64_t rank = 0; rank < trainers_.back().size(); ++rank)
      fresh_.back().insert(static_cast<std::uint32_t>(rank));
  }
  actors::Cluster::RenewResult renew(std::size_t mesh, const actors::MeshPlacement& where,
                                     const std::set<std::uint32_t>& broken) override {
    auto renewed = cluster_.renew<TinyTrainer>(trainers_[mesh], keys_[mesh], where, broken);
    fresh_[mesh].insert(renewed.fresh.begin(), renewed.fresh.end());
    return renewed;
  }
  void drop_from(std::size_t mesh) override {
    trainers_.erase(trainers_.begin() + static_cast<std::ptrdiff_t>(mesh), trainers_.end());
    keys_.resize(mesh);
    fresh_.resize(mesh);
  }

  /// Starts the devices, or adopts those of the previous driver.
  void begin() {
    if (std::exchange(restarted_, false)) {
      bool whole = true;
      for (const Wanted& mesh : wanted()) {
        actors::MeshKey key;
        auto taken = cluster_.adopt_mesh<TinyTrainer>(key, mesh.name, mesh.shape);
        whole = whole && taken;
        if (!whole) continue;  // meshes start in order; a mesh after a missing one is ended
        trainers_.push_back(std::move(*taken));
        keys_.push_back(key);
        fresh_.emplace_back();
      }
      recovery_.adopt(*this);
    } else {
      recovery_.start(*this);
    }
    connect();
  }

  actors::MeshRef<TinyTrainer> all() const {
    actors::MeshRef<TinyTrainer>::Addresses addresses;
    for (const Trainers& mesh : trainers_)
      for (actors::ActorAddress& actor : mesh.addresses())
        addresses.push_back(std::make_shared<const actors::ActorAddress>(std::move(actor)));
    const MeshShape shape({{"data", options_.devices}});
    return {cluster_.system(), "all", shape, std::move(addresses)};
  }

  /// Finds each mesh by its name: the head must know the actors that this driver has now.
  void check_names() {
    using Actor = std::pair<actors::ProcessId, actors::ActorId>;
    const auto actors_of = [](const std::vector<actors::ActorAddress>& addresses) {
      std::vector<Actor> actors;
      for (const actors::ActorAddress& address : addresses)
        actors.emplace_back(address.process.id, address.actor);
      return actors;
    };
    for (const Trainers& mesh : trainers_) {
      if (options_.plant == Plant::kPublishesOldActors) publish_former(mesh);
      try {
        const auto found = cluster_.find_mesh<TinyTrainer>(mesh.name(), std::chrono::seconds(10));
        if (actors_of(found.addresses()) != actors_of(mesh.addresses()))
          records_.violations.push_back("the name " + mesh.name() + " leads to other actors");
      } catch (const Error& error) {
        // A head that is away answers nothing.
        if (error.code() == ErrorCode::kNotFound)
          records_.violations.push_back("the head does not know a name: " + error.message());
      }
    }
  }
  /// Publishes actors that have never been.
  void publish_former(const Trainers& mesh) {
    actors::NamedActors former{mesh.name(), actors::interface_version<TinyTrainer>(), mesh.shape(),
                               mesh.addresses()};
    former.addresses.front().actor = actors::ActorId(former.addresses.front().actor.value() + 1000);
    cluster_.head().tell<&actors::Head::publish_actors>(actors::PublishActors{{former}, {}});
  }

  /// Connects the devices with each other and restores all to the saved state.
  void connect() {
    record_owners(world_, records_, cluster_);
    check_names();
    const std::vector<actors::ActorAddress> addresses = all().call<&TinyTrainer::address>().get();
    int first = 0;
    for (const Trainers& mesh : trainers_) {
      mesh.call<&TinyTrainer::meet>(addresses, first).get();
      first += static_cast<int>(mesh.size());
    }
    if (!std::exchange(begun_, true)) return fresh_.assign(trainers_.size(), {});
    if (options_.plant != Plant::kKeepsOldState) {
      all().call<&TinyTrainer::rollback>(run_.kept_step, run_.kept_weight).get();
    } else {
      for (std::size_t mesh = 0; mesh < trainers_.size(); ++mesh)
        for (const std::uint32_t rank : fresh_[mesh])
          trainers_[mesh]
              .rank(rank)
              .call<&TinyTrainer::rollback>(run_.kept_step, run_.kept_weight)
              .get();
    }
    fresh_.assign(trainers_.size(), {});
    step_ = run_.kept_step;
  }

  double train() {
    const auto trainers = all();
    for (; step_ < options_.steps; ++step_) {
      if (service_) service_->step();
      if (objects_) objects_->step();
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
      recovery_.step_done();
    }
    if (service_) service_->finish();
    if (objects_) objects_->finish();
    if (rooms_) rooms_->finish();
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
  bool begun_, restarted_;
  actors::RunRecovery recovery_;
  std::vector<Trainers> trainers_;  // by mesh
  std::vector<actors::MeshKey> keys_;
  std::vector<std::set<std::uint32_t>> fresh_;  // new ranks, by mesh
  int step_ = 0;
  std::optional<TinyService> service_;
  std::optional<TinyObjects> objects_;
  std::optional<TinyRooms> rooms_;
};

/// Checks the head's record of the first run.
void check_books(Records& records, actors::Cluster& cluster, const actors::AppRun& run) {
  if (!std::exchange(records.first_is_done, false)) return;
  actors::System& system = cluster.system();
  const actors::ProcessRef head =
      system.connect(actors::Address::parse(run.head), std::chrono::seconds(5));
  for (const actors::RunRecord& record :
       system.named<actors::Head>(head, "head").call<&actors::Head::runs>().get())
    if (record.name == "first" && record.state != actors::RunState::kDone)
      records.violations.push_back(fmt::format("the first run is done, and the books say {}: {}",
                                               actors::to_string(record.state), record.reason));
}

int train(ClusterWorld& world, Records& records, const TinyOptions& options,
          actors::Cluster& cluster, Records::Run& run, const actors::AppRun& app) {
  check_books(records, cluster, app);
  TinyDriver driver(world, records, run, options, cluster, app);
  run.loss = driver.run();
  return 0;
}

constexpr const char* kWeftRun = "--weft-run";

/// Returns the cause of the last failure in the run's events, or "".
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
                             .original = file,
                             .read_files = {},
                             .head = head,
                             .out = out,
                             .check = {.restartable = true},
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
  TinyService::provide(app, records.service, options.plant);
  TinyObjects::provide(app, records.objects, options.plant);
  TinyRooms::provide(app);
  return app.run([&](actors::Cluster& cluster, const actors::AppRun& run) {
    Records::Run& record = records.runs[run.out.filename().string()];
    record.begun = true;
    try {
      const int status = train(world, records, options, cluster, record, run);
      record.done = true;
      return status;
    } catch (const Error& error) {
      record.error =
          options.plant == Plant::kTellsNoCause
              ? "a call has failed"
              : cluster.failures().first(std::chrono::milliseconds(500)).value_or(error).message();
      throw;
    }
  });
}

}  // namespace weft::simulation
