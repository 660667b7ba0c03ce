#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "actors/launch/cluster.h"
#include "core/base/clock.h"
#include "core/base/secret.h"
#include "core/trace/trace_event.h"
#include "mesh/costs/schedule_tuner.h"
#include "mesh/executor/device_actor.h"
#include "mesh/executor/driver_participant.h"
#include "mesh/executor/machine_memory.h"
#include "mesh/executor/machine_slots.h"
#include "mesh/executor/open_collectives.h"
#include "mesh/executor/progress_watch.h"
#include "mesh/plan/observed_network.h"
#include "mesh/plan/training_plan.h"
#include "mesh/runtime/step_result.h"

namespace weft::mesh {

/// Settings of a group.
struct GroupOptions {
  std::uint64_t seed = 1;
  int threads_per_device = 1;
  DeviceKind device = DeviceKind::kCpu;
  bool share_gpu = false;       ///< Whether devices on one machine may share GPUs; see DeviceSetup.
  double flops_per_second = 0;  ///< Of emulated devices; see DeviceSetup.
  ProgressLimits progress = {};
  /// See run(); false where the links are certainly what the layout says.
  bool follow_network = true;
};

/// The device actors of all meshes of a plan, as the driver drives them: spawned on the cluster,
/// connected, with their programs installed and their parameters initialised. One message per
/// device and step.
///
/// Owned by the driver; one thread at a time, but for gather(). When anything throws, the group is
/// of no more use: destroy it. The error of a dead device is the cluster's incident, not the first
/// symptom.
template <typename Source>
class MeshGroup final {
 public:
  MeshGroup(actors::Cluster& cluster, const LayoutConfig& layout, const ModelGraphs& model,
            const typename Source::Config& config, const GroupOptions& options)
      : cluster_(cluster), options_(options), model_(model) {
    guarded([&] {
      for (const MeshConfig& mesh : layout.meshes) spawn(mesh, config);
      places_ = places();
      plan_ = make_training_plan(layout, model_, places_);
      for (const DeviceMesh& mesh : plan_.partition.meshes)
        for (int rank = 0; rank < mesh.size(); ++rank) names_.push_back(device_name(mesh, rank));
      open();
      plan_gpu_transfers(layout.checkpoint_copies);
      leave_memory_free();
      copies_ = plan_.copies_checkpoints();
      for (const auto* programs : plan_.all_programs()) install(*programs);
      initialize();
      return 0;
    });
  }

  const TrainingPlan& plan() const { return plan_; }

  /// Runs "train" or "validate" on all devices. `request.run` is filled in. After the 8th, 16th,
  /// 32nd... step of "train" the transfers are planned anew if the hosts' links turn out to carry
  /// something else than the plan counts on; the result's note then says so. Under schedule `auto`,
  /// the first steps are measured, and a schedule searched for what they took (see ScheduleTuner).
  /// Sums do not depend on any of it.
  StepResult run(StepRequest request) {
    return guarded([&] {
      request.run = ++runs_;
      const std::vector<Program>& programs = request.program == plan_.train.programs.front().name
                                                 ? plan_.train.programs
                                                 : plan_.validate.programs;
      std::vector<StepReport> reports = watched(
          start(request),
          watch(request, fmt::format("step {} of '{}'", request.step, request.program), &programs));
      remember_traces(reports);
      StepResult result = combine(reports);
      if (options_.follow_network && request.program == plan_.train.programs.front().name &&
          ++steps_ == next_look_) {
        next_look_ *= 2;
        result.note = follow_network(result.egress_rates);
      }
      if (request.program == plan_.train.programs.front().name) follow_times(result);
      return result;
    });
  }

  /// Goes on with other programs between two steps: another schedule, resharding strategy,
  /// lowering, number of credits, payload or choice of what to recompute. Parameters stay where
  /// they are, and sums do not depend on it. Throws Error(kInvalidArgument) if meshes, sharding or
  /// the layers of stages differ, and what make_training_plan() throws; then all stays as it was.
  void use_layout(const LayoutConfig& layout) {
    guarded([&] {
      check_same_places(plan_.layout, layout);
      LayoutConfig other = layout;
      other.device_places = plan_.layout.device_places;
      other.checkpoint_copies = plan_.layout.checkpoint_copies;
      use(make_training_plan(other, model_, places_, plan_.network));
      tuner_ = ScheduleTuner();
      return 0;
    });
  }

  /// Where the plan copies for checkpoints: copies parameters and moments as they are now. While no
  /// gather() runs.
  void copy_for_checkpoint() {
    guarded([&] {
      StepRequest request;
      request.program = plan_.checkpoint_copy.front().name;
      request.run = ++runs_;
      watched(start(request), watch(request, "the copy for a checkpoint", &plan_.checkpoint_copy));
      return 0;
    });
  }
  /// Brings a batch of parameters and moments into the driver's buffer. Where the plan copies for
  /// checkpoints, from the copy, and another thread than the group's may do it meanwhile, one of
  /// them: it gives up, with Error(kCancelled), when it is told to stop.
  void gather(const CheckpointBatch& batch, const std::stop_token& stop = {}) {
    if (copies_) move_beside(batch.gather.front().name, stop);
    else move(batch.gather);
  }
  /// Brings the driver's buffer to the devices.
  void scatter(const CheckpointBatch& batch) { move(batch.scatter); }
  std::span<float> checkpoint_buffer() { return driver_->block(kCheckpointBuffer); }

  /// What was traced since the last take, by device.
  std::vector<DeviceTrace> take_traces() {
    std::vector<DeviceTrace> traces = std::move(traces_);
    traces_.clear();
    return traces;
  }

 private:
  using Actor = DeviceActor<Source>;
  using Reports = actors::Future<std::vector<StepReport>>;

  void spawn(const MeshConfig& mesh, const typename Source::Config& config) {
    std::vector<actors::MeshShape::Axis> shape;
    for (const MeshAxis& axis : mesh.axes) shape.push_back({axis.name, axis.size});
    meshes_.push_back(cluster_.spawn<Actor>(mesh.name, actors::MeshShape(std::move(shape)),
                                            actors::OnHosts{mesh.hosts}, config));
  }

  /// Where the head has placed the ranks.
  MeshPlaces places() {
    const actors::ClusterStatus status = cluster_.status();
    std::map<std::string, int> slots = first_slots(status.hosts);
    for (const actors::HostStatus& host : status.hosts)
      machine_of_[host.offer.name] = host.offer.machine;
    MeshPlaces result;
    for (const auto& mesh : meshes_) {
      const actors::MeshStatus* newest = nullptr;
      for (const actors::MeshStatus& candidate : status.meshes) {
        if (candidate.key.name == mesh.name() &&
            (newest == nullptr || candidate.key.epoch > newest->key.epoch))
          newest = &candidate;
      }
      if (newest == nullptr)
        throw_error(ErrorCode::kInternal,
                    "the head does not know mesh '{}', which it has just placed", mesh.name());
      result.push_back(newest->places);
      std::vector<int>& of_mesh = slots_.emplace_back();
      for (const actors::DevicePlace& place : newest->places)
        of_mesh.push_back(slots[place.host] + static_cast<int>(place.device));
      for (std::uint32_t rank = 0; rank < newest->places.size(); ++rank)
        members_.emplace_back(keys_.size(), rank);
      epoch_ = std::max(epoch_, newest->key.epoch);
      keys_.push_back(newest->key);
    }
    return result;
  }

  /// Where all control connections stay on this machine, so does the data plane: UCX reads what
  /// anybody sends to its ports.
  std::string data_interfaces() const {
    for (const auto& mesh : meshes_) {
      for (const actors::ActorAddress& actor : mesh.addresses()) {
        const std::string& host = actor.process.address.host;
        if (!host.starts_with("127.") && host != "localhost" && host != "::1") return "";
      }
    }
    return "lo";
  }

  void open() {
    const std::string interfaces = data_interfaces();
    // of these meshes in this epoch: it ends with the group
    const Secret secret = Secret::random();
    std::vector<PeerAddress> addresses;
    for (std::size_t m = 0; m < meshes_.size(); ++m) {
      std::vector<DeviceSetup> setups;
      for (const transfer::DeviceId device : plan_.partition.meshes[m].devices()) {
        setups.push_back({device, plan_.topology.host_of(device), epoch_,
                          options_.threads_per_device, interfaces, options_.device,
                          options_.flops_per_second, slots_[m][setups.size()], options_.share_gpu,
                          plan_.layout.deterministic, secret.bytes()});
      }
      const std::vector<std::vector<std::byte>> opened =
          meshes_[m].template scatter<&Actor::open>(setups).get();
      for (std::size_t rank = 0; rank < opened.size(); ++rank)
        addresses.push_back({setups[rank].device, setups[rank].host, opened[rank]});
      cluster_.describe(keys_[m], meshes_[m].template call<&Actor::description>().get());
    }
    DeviceSetup own{plan_.driver(), plan_.topology.host_of(plan_.driver()), epoch_, 1, interfaces};
    own.secret = secret.bytes();
    driver_ = std::make_unique<DriverParticipant>(own);
    addresses.push_back(
        {plan_.driver(), plan_.topology.host_of(plan_.driver()), driver_->address()});
    driver_->connect(addresses);
    for (auto& mesh : meshes_) mesh.template call<&Actor::connect>(addresses).get();
  }

  /// Plans anew where devices turn out to be GPUs that reach each other.
  void plan_gpu_transfers(CheckpointCopies copies) {
    if (options_.device != DeviceKind::kCuda && options_.device != DeviceKind::kAuto) return;
    LayoutConfig layout = plan_.layout;
    if (layout.gpu_transfers == GpuTransfers::kHost) return;
    layout.device_places = ask_places(meshes_);
    layout.checkpoint_copies = copies;  // GPUs have memory of their own
    const auto is_gpu = [](const transfer::DevicePlace& place) { return place.is_gpu; };
    if (std::none_of(layout.device_places.begin(), layout.device_places.end(), is_gpu)) return;
    plan_ = make_training_plan(layout, model_, places_);
    open_communicators(meshes_, plan_, ledger_);
  }

  /// Gives up copies for checkpoints where a machine has too little memory for those of all its
  /// devices.
  void leave_memory_free() {
    if (!plan_.copies_checkpoints()) return;
    std::map<std::string, MachineMemory> machines;
    for (std::size_t m = 0; m < meshes_.size(); ++m) {
      const auto free = meshes_[m].template call<&Actor::available_memory>().get();
      for (std::size_t rank = 0; rank < free.size(); ++rank) {
        MachineMemory& machine = machines[machine_of_.at(places_[m][rank].host)];
        machine.wanted += checkpoint_copy_bytes(plan_, plan_.partition.meshes[m].devices()[rank]);
        if (free[rank]) machine.free = std::min(machine.free.value_or(*free[rank]), *free[rank]);
      }
    }
    if (auto why = short_of_memory(machines)) drop_checkpoint_copies(plan_, std::move(*why));
  }

  /// A device that waits for a dead one in a collective does not see that by itself.
  void cancel_collectives(const Error& why) {
    if (ledger_.size() == 0) return;
    for (auto& mesh : meshes_) {
      try {
        mesh.within(kAnswerWithin)
            .template call_collect<&Actor::cancel_collectives>("the run has failed: " +
                                                               why.message())
            .get();
      } catch (const Error&) {
        continue;  // Nobody of this mesh is there any more; `why` tells more.
      }
    }
  }

  void install(const std::vector<Program>& programs) {
    std::vector<actors::Future<void>> pending;
    for (const Program& program : programs) {
      if (program.device == plan_.driver()) {
        driver_->install(program);
      } else {
        pending.push_back(actor_of(program.device).template call<&Actor::install>(program));
      }
    }
    for (auto& future : pending) future.get();
  }

  /// Checkpoints go on as they are installed: somebody may be gathering one.
  void replace(TrainingPlan plan) {
    plan.checkpoint = std::move(plan_.checkpoint);
    plan.checkpoint_copy = std::move(plan_.checkpoint_copy);
    plan.no_copies_because = std::move(plan_.no_copies_because);
    plan_ = std::move(plan);
  }

  /// `plan` must differ in the programs "train" and "validate" alone.
  void use(TrainingPlan plan) {
    open_communicators(meshes_, plan, ledger_);
    replace(std::move(plan));
    install(plan_.train.programs);
    install(plan_.validate.programs);
  }

  /// Plans the transfers anew where the network is not what the plan counts on. What to tell the
  /// user; empty: nothing has changed.
  std::string follow_network(const std::vector<double>& egress_rates) {
    const transfer::Network network = observed_network(plan_, egress_rates);
    if (network == plan_.network) return "";
    std::string text = describe_change(plan_, network);
    TrainingPlan changed = make_training_plan(plan_.layout, model_, places_, network);
    const auto same = [](const Compiled& before, const Compiled& after) {
      const auto equal = [](const PlannedEdge& a, const PlannedEdge& b) {
        return a.plan.flows == b.plan.flows;
      };
      return std::equal(before.edges.begin(), before.edges.end(), after.edges.begin(),
                        after.edges.end(), equal);
    };
    const bool other = !same(plan_.train, changed.train) || !same(plan_.validate, changed.validate);
    if (!other) {
      replace(std::move(changed));
      return "";
    }
    use(std::move(changed));
    return text + "; transfers planned anew";
  }

  /// Goes on as the tuner advises after a step of training.
  void follow_times(StepResult& result) {
    ScheduleTuner::Advice advice =
        tuner_.after_step(plan_, result, [&](const LayoutConfig& layout) {
          return make_training_plan(layout, model_, places_, plan_.network);
        });
    if (advice.plan) use(std::move(*advice.plan));
    if (!advice.note.empty()) result.note += (result.note.empty() ? "" : "; ") + advice.note;
  }

  void initialize() {
    watched(
        all_devices().within(actors::kNoDeadline).template call<&Actor::initialize>(options_.seed),
        watch(StepRequest{}, "the initialisation", nullptr));
    for (std::size_t m = 0; m < meshes_.size(); ++m) {
      for (std::int64_t rank = 0; rank < meshes_[m].size(); ++rank)
        clock_offsets_.push_back(measure_clock(meshes_[m].rank(rank)));
    }
  }

  actors::ActorRef<Actor> actor_of(transfer::DeviceId device) {
    for (std::size_t m = 0; m < meshes_.size(); ++m) {
      if (const auto rank = plan_.partition.meshes[m].rank_of(device))
        return meshes_[m].rank(*rank);
    }
    throw_error(ErrorCode::kInternal, "device {} belongs to no mesh", device);
  }

  /// Driver's clock minus the device's, from the quickest of a few round trips.
  static std::int64_t measure_clock(const actors::ActorRef<Actor>& actor) {
    std::int64_t best = std::numeric_limits<std::int64_t>::max(), offset = 0;
    for (int i = 0; i < 5; ++i) {
      const std::int64_t before = SteadyClock().now().time_since_epoch().count();
      const std::int64_t there = actor.template call<&Actor::clock>().get();
      const std::int64_t after = SteadyClock().now().time_since_epoch().count();
      if (after - before >= best) continue;
      best = after - before;
      offset = (before + after) / 2 - there;
    }
    return offset;
  }

  /// The devices of all meshes as one, by DeviceId: the first error of any ends a call of all.
  actors::MeshRef<Actor> all_devices() const {
    typename actors::MeshRef<Actor>::Addresses addresses;
    for (const auto& mesh : meshes_) {
      for (actors::ActorAddress& actor : mesh.addresses())
        addresses.push_back(std::make_shared<const actors::ActorAddress>(std::move(actor)));
    }
    const auto size = static_cast<std::int64_t>(addresses.size());
    return {cluster_.system(), "devices", actors::MeshShape{{"device", size}},
            std::move(addresses)};
  }

  Reports start(const StepRequest& request) {
    return all_devices().within(actors::kNoDeadline).template call<&Actor::run>(request);
  }

  /// Who looks after an execution; `programs` as ProgressWatch::Devices has them.
  ProgressWatch watch(const StepRequest& request, std::string what,
                      const std::vector<Program>* programs) {
    ProgressWatch::Devices devices;
    for (std::size_t m = 0; m < meshes_.size(); ++m) {
      for (std::int64_t rank = 0; rank < meshes_[m].size(); ++rank) {
        const auto at = static_cast<std::uint32_t>(rank);
        devices.names.push_back(names_[devices.names.size()] + " on " +
                                cluster_.whereabouts(keys_[m], at));
      }
    }
    devices.names.push_back("the driver");
    devices.programs = programs;
    devices.ask = [this] {
      return all_devices().within(kAnswerWithin).template reports<DeviceProgress>();
    };
    devices.on_still = [this](std::size_t device, const std::string& line) {
      const auto [mesh, rank] = device < members_.size() ? members_[device] : members_.front();
      cluster_.report("no progress", keys_[mesh], rank, line);
    };
    if (programs != nullptr && programs->size() > members_.size())
      devices.driver = [this] { return driver_->progress(); };
    return {options_.progress, request.run, std::move(what), std::move(devices), clock_};
  }

  /// Waits for the end of a call of all devices for as long as they get on.
  template <typename Result>
  static Result watched(actors::Future<Result> future, ProgressWatch watch) {
    try {
      while (!future.wait_for(watch.interval())) watch.look();
    } catch (...) {
      future.cancel();
      throw;
    }
    return future.get();
  }

  static bool is_symptom(const Error& error) {
    return error.code() == ErrorCode::kPeerDied || error.code() == ErrorCode::kCancelled ||
           error.code() == ErrorCode::kUnavailable;
  }

  void move(const std::vector<Program>& programs) {
    guarded([&] {
      StepRequest request;
      request.program = programs.front().name;
      request.run = ++runs_;
      Reports reports = start(request);
      ProgressWatch progress =
          watch(request, fmt::format("'{}' of a checkpoint", request.program), &programs);
      move_with_driver(request, std::move(reports), progress.interval(), [&] { progress.look(); });
      return 0;
    });
  }

  /// A gather while steps run. Uses nothing of the group that a step changes. Whether devices get
  /// on, the steps judge; only when nothing moves at all, not even a step, does it end by that, and
  /// a step that has failed is told by whoever runs it.
  void move_beside(const std::string& program, const std::stop_token& stop) {
    std::optional<Error> error;
    try {
      StepRequest request;
      request.program = program;
      request.run = ++runs_;
      auto done =
          all_devices().within(actors::kNoDeadline).template call<&Actor::run_beside>(request);
      ProgressWatch::Devices devices;
      devices.names = names_;
      devices.programs = nullptr;
      devices.names.emplace_back("the driver");
      devices.ask = [this] {
        return all_devices().within(kAnswerWithin).template reports<DeviceProgress>();
      };
      devices.driver = [this] { return driver_->progress(); };
      devices.on_still = [](std::size_t, const std::string&) {};
      ProgressWatch progress(options_.progress, request.run,
                             fmt::format("'{}' of a checkpoint", program), std::move(devices),
                             clock_);
      const auto look = [&] {
        if (stop.stop_requested())
          throw_error(ErrorCode::kCancelled, "the checkpoint was given up");
        progress.look();
      };
      move_with_driver(request, std::move(done),
                       std::min<Nanoseconds>(progress.interval(), std::chrono::milliseconds(100)),
                       look);
      return;
    } catch (const Error& thrown) {
      error = thrown;
    }
    if (const auto cause = cluster_.failure(
            is_symptom(*error) && !stop.stop_requested() ? kCauseWithin : Nanoseconds::zero()))
      error = *cause;
    throw *error;
  }

  /// Runs the driver's part in what the devices do until `done`, and waits for both; calls `look`
  /// meanwhile, at least every `interval`. What any of the three throws cancels the rest.
  template <typename Done>
  void move_with_driver(const StepRequest& request, Done done, Nanoseconds interval,
                        const std::function<void()>& look) {
    bool ended = false;
    const auto look_at_both = [&] {
      look();
      // A device that fails leaves its transfers undone: its error ends ours.
      if (ended || !done.ready()) return;
      ended = true;
      done.get();
    };
    try {
      driver_->run(request, look_at_both);
      while (!ended && !done.wait_for(interval)) look_at_both();
      if (!ended) done.get();
    } catch (...) {
      if (!ended) done.cancel();
      throw;
    }
  }

  void remember_traces(std::vector<StepReport>& reports) {
    if (reports.empty() || reports.front().trace.empty()) return;
    if (traces_.empty()) {
      for (const Program& program : plan_.train.programs) {
        const std::size_t index = traces_.size();
        traces_.push_back({program.device_name + " on " +
                               plan_.hosts[plan_.topology.host_of(program.device).value()],
                           clock_offsets_[index],
                           {},
                           0});
      }
    }
    for (std::size_t i = 0; i < reports.size(); ++i) {
      traces_[i].events.insert(traces_[i].events.end(),
                               std::make_move_iterator(reports[i].trace.begin()),
                               std::make_move_iterator(reports[i].trace.end()));
    }
  }

  /// Gives the cause rather than the symptom: a peer's broken connection may be seen before the
  /// death that broke it is told.
  template <typename F>
  auto guarded(F&& f) {
    std::optional<Error> error;
    try {
      return f();
    } catch (const Error& thrown) {
      error = thrown;
    }
    const auto cause = cluster_.failure(is_symptom(*error) ? kCauseWithin : Nanoseconds::zero());
    if (cause) error = *cause;
    cancel_collectives(*error);
    throw *error;
  }

  /// How long after a symptom its cause may still be told.
  static constexpr Nanoseconds kCauseWithin = std::chrono::milliseconds(500);
  /// How long a device that may be stuck is given to say where it stands.
  static constexpr Nanoseconds kAnswerWithin = std::chrono::seconds(2);

  actors::Cluster& cluster_;
  const GroupOptions options_;
  const ModelGraphs model_;
  MeshPlaces places_;
  const SteadyClock clock_;
  std::vector<actors::MeshKey> keys_;
  std::vector<std::pair<std::size_t, std::uint32_t>> members_;  ///< Mesh and rank, by DeviceId.
  std::vector<std::string> names_;                              ///< "front[0,1]", by DeviceId.
  std::map<std::string, std::string> machine_of_;               ///< By host.
  /// By mesh and rank; see DeviceSetup.
  std::vector<std::vector<int>> slots_;
  std::vector<actors::ActorMesh<Actor>> meshes_;
  TrainingPlan plan_;
  transfer::CommunicatorLedger ledger_;
  std::unique_ptr<DriverParticipant> driver_;
  std::vector<std::int64_t> clock_offsets_;  ///< By DeviceId.
  std::vector<DeviceTrace> traces_;
  std::uint64_t epoch_ = 0;
  std::atomic<std::uint64_t> runs_ = 0;      ///< Also counted by who gathers beside steps.
  bool copies_ = false;                      ///< Checkpoints are gathered from copies.
  std::uint64_t steps_ = 0, next_look_ = 8;  ///< Of "train".
  ScheduleTuner tuner_;
};

}  // namespace weft::mesh
