#include "mesh/executor/device_engine.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "mesh/program/compile.h"
#include "mesh/runtime/initialize.h"
#include "transfer/wires/data_plane.h"

namespace weft::mesh {

namespace {
transfer::EngineOptions engine_options(Device& device, std::optional<Log> log) {
  transfer::EngineOptions options;
  options.log = std::move(log);
  options.staging = [&device](std::size_t bytes) {
    // Owns the memory it points to.
    const auto memory = std::make_shared<DeviceMemory>(device.allocate_staging(bytes));
    return transfer::StagingMemory(memory, memory->data());
  };
  return options;
}
}  // namespace

DeviceEngine::DeviceEngine(const DeviceSetup& setup, BatchSource& batches, const Hardware& hardware,
                           std::shared_ptr<ProgressBoard> board, std::optional<Log> log)
    : setup_(setup),
      hardware_(hardware),
      batches_(batches),
      log_(std::move(log)),
      device_(hardware.make_device(setup)),
      stream_(device_->create_stream()),
      copies_(*device_, clock_),
      storage_(*device_),
      board_(std::move(board)),
      transfers_(make_transfers()),
      beside_stream_(device_->create_stream()),
      beside_copies_(*device_, clock_) {
  use_transfers();
}

std::shared_ptr<transfer::TransferEngine> DeviceEngine::make_transfers() {
  return std::make_shared<transfer::TransferEngine>(transfer::make_wire(setup_.data), clock_,
                                                    engine_options(*device_, log_));
}

void DeviceEngine::use_transfers() {
  resources_.emplace(
      Resources{*stream_, copies_, storage_, *transfers_, batches_, clock_, setup_.data.epoch});
  beside_.emplace(Resources{*beside_stream_, beside_copies_, storage_, *transfers_, batches_,
                            clock_, setup_.data.epoch});
  beside_->low_priority = true;
  resources_->board = board_.get();
  board_->set_engine(transfers_);
}

void DeviceEngine::move_to_epoch(const DeviceSetup& setup) {
  collectives_.reset();
  setup_ = setup;
  // The old engine must end first. A running report may keep it alive for a moment.
  transfers_.reset();
  transfers_ = make_transfers();
  use_transfers();
}

DeviceEngine::~DeviceEngine() = default;

void DeviceEngine::connect(const std::vector<transfer::PeerAddress>& peers) {
  for (const transfer::PeerAddress& peer : peers) {
    if (peer.device != setup_.data.device)
      transfers_->connect(peer.device, peer.host, peer.address);
  }
}

const transfer::DeviceCapabilities& DeviceEngine::place() {
  if (!library_) library_ = hardware_.open_library(setup_);
  return library_->place;
}

CollectiveStream& DeviceEngine::collectives() {
  if (collectives_) return *collectives_;
  if (const auto& at = place(); library_->collectives == nullptr || device_->is_host_memory()) {
    throw_error(ErrorCode::kFailedPrecondition,
                "device {}: device collectives are not available: {}", setup_.data.device,
                at.is_gpu ? at.library_error : "it is not a GPU");
  }
  collectives_.emplace(setup_.data.device, *library_->collectives, *device_, clock_);
  resources_->library = &*collectives_;
  return *collectives_;
}

std::vector<transfer::CommunicatorId> DeviceEngine::make_ids(
    const std::vector<transfer::CommunicatorGroup>& groups) {
  const bool concerned = std::ranges::any_of(
      groups, [&](const auto& group) { return group.rank_of(setup_.data.device) == 0; });
  return concerned ? collectives().queue.make_ids(groups) : std::vector<transfer::CommunicatorId>();
}

void DeviceEngine::open_communicators(const CommunicatorSetup& setup) {
  const auto concerns = [&](const auto& group) { return group.contains(setup_.data.device); };
  const auto& [changes, ids] = setup;
  if (std::ranges::none_of(changes.create, concerns) &&
      std::ranges::none_of(changes.destroy, concerns))
    return;
  collectives().queue.open(setup_.data.epoch, changes, ids);
  collectives().queue.connect(changes.create);
}

void DeviceEngine::cancel_collectives(const Error& why) {
  if (collectives_) collectives_->queue.cancel(setup_.data.epoch, why);
}

void DeviceEngine::install(Program program) {
  if (program.device != setup_.data.device) {
    throw_error(ErrorCode::kInvalidArgument,
                "program '{}' is for {} (device {}), but this is device {}", program.name,
                program.device_name, program.device, setup_.data.device);
  }
  storage_.provide(program, *stream_);
  if (!program.collective_order.empty())
    collectives().queue.reserve_staging(collective_staging_bytes(program));
  std::string name = program.name;
  programs_.insert_or_assign(std::move(name), std::make_shared<const Program>(std::move(program)));
}

void DeviceEngine::initialize(std::uint64_t seed) {
  const auto train = programs_.find(kTrainProgram);
  if (train == programs_.end())
    throw_error(ErrorCode::kFailedPrecondition, "install a program 'train' before initialize()");
  initialize_parameters(*train->second, seed, storage_, *stream_);
}

const std::shared_ptr<const Program>& DeviceEngine::program(const std::string& name) const {
  const auto found = programs_.find(name);
  if (found == programs_.end())
    throw_error(ErrorCode::kNotFound, "no program '{}' is installed on device {}", name,
                setup_.data.device);
  return found->second;
}

std::unique_ptr<Interpreter> DeviceEngine::begin(const StepRequest& request,
                                                 std::function<void()> wake) {
  const auto& installed = program(request.program);
  board_->begin(installed, request.execution_number);
  return std::make_unique<Interpreter>(*installed, request, *resources_, std::move(wake));
}

std::unique_ptr<Interpreter> DeviceEngine::begin_background(const StepRequest& request,
                                                            std::function<void()> wake) {
  return std::make_unique<Interpreter>(*program(request.program), request, *beside_,
                                       std::move(wake));
}

std::vector<std::string> DeviceEngine::take_notes() {
  std::vector<std::string> notes = device_->notes();
  notes.erase(notes.begin(), notes.begin() + notes_taken_);
  notes_taken_ += notes.size();
  return notes;
}

void DeviceEngine::abandon(Interpreter& interpreter, const Error& why) {
  interpreter.cancel(why);
  // The engine aborts transfers that do not end within its grace period of half a second.
  WEFT_CHECK(interpreter.wait_quiescent(std::chrono::seconds(10)),
             "transfers or copies do not end after being cancelled: {}", interpreter.position());
}

}  // namespace weft::mesh
