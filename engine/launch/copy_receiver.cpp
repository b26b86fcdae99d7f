#include "engine/launch/copy_receiver.h"

#include <algorithm>
#include <cerrno>
#include <set>

#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "engine/base/publish_folder.h"
#include "engine/checkpoint/leader_epoch.h"
#include "engine/checkpoint/signature.h"
#include "engine/launch/background.h"

namespace trainer::launch {
namespace {

namespace fs = std::filesystem;
using checkpoint::StoredFile;

/// What arrived isn't what was offered.
struct OtherBytes : MachineError {
  using MachineError::MachineError;
};

/// Files of a checkpoint that its manifest can't list.
bool is_about_all(const std::string& name) {
  return name == checkpoint::kManifestFile || name == checkpoint::kSumsFile || name == checkpoint::kSignatureFile;
}

const StoredFile* find(const std::vector<StoredFile>& files, const std::string& name) {
  const auto found =
      std::find_if(files.begin(), files.end(), [&](const StoredFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

}  // namespace

CopyReceiver::CopyReceiver(fs::path output_dir, std::optional<checkpoint::Keep> keep, int64_t leader_epoch)
    : output_dir_(std::move(output_dir)), keep_(std::move(keep)), leader_epoch_(leader_epoch) {}

CopyReceiver::~CopyReceiver() {
  if (work_.valid()) work_.wait();
  drop();
}

void CopyReceiver::serve(MachineLine& line) {
  if (work_.valid()) {
    if (!is_done(work_)) return;
    const bool was_receiving = receiving_;
    try {
      for (const LinkMessage& answer : work_.get()) {
        if (answer.op == LinkOp::kCopyEnd) note_copy();
        line.send(answer);
      }
    } catch (const std::exception& error) {
      drop();
      if (was_receiving) end_ = error.what();
      const bool other_bytes = dynamic_cast<const OtherBytes*>(&error) != nullptr;
      line.send(
          {.op = LinkOp::kCopyEnd, .code = other_bytes ? kOtherBytes : kMachineFailure, .strings = {error.what()}});
    }
  }
  if (inbox_.empty()) return;
  LinkMessage message = std::move(inbox_.front());
  inbox_.pop_front();
  if (message.op == LinkOp::kCopyPart && message.code != 0) {
    end_ = message.strings.empty() ? "the sender gave up" : message.strings.front();
    return drop();
  }
  if (message.op == LinkOp::kCopyPart && !message.strings.empty())
    message.strings.front() = line.show(message.strings.front());  // in order, also if it is dropped then
  work_ = in_background([this, message = std::move(message)]() mutable { return handle(std::move(message)); });
}

void CopyReceiver::note_copy() {
  end_ = "";
  if (step_of_checkpoint(offer_.checkpoint) > step_of_checkpoint(newest_)) newest_ = offer_.checkpoint;
}

CopyReceiver::Answers CopyReceiver::handle(LinkMessage message) {
  if (message.op == LinkOp::kCopyOffer) return begin(message);
  if (!receiving_) return {};  // the rest of a copy that has failed
  return write(message);
}

CopyReceiver::Answers CopyReceiver::begin(const LinkMessage& message) {
  drop();
  receiving_ = true;
  offer_ = read_offer(message);
  if (const int64_t epoch = checkpoint::newest_epoch(output_dir_); epoch > leader_epoch_)
    throw MachineError("{} has a checkpoint of leader epoch {}, but the copy comes from a leader of epoch {}",
                       output_dir_.string(), epoch, leader_epoch_);
  partial_ = output_dir_ / fmt::format(".checkpoint-{}.copy.partial",
                                       offer_.checkpoint.empty() ? "files" : offer_.checkpoint.substr(11));
  file_operations::remove_tree(partial_);
  if (file_operations::make_folder(partial_) != 0) throw machine_error("create", partial_, errno);
  LinkMessage want{.op = LinkOp::kCopyWant};
  const std::vector<StoredFile> mine = files_here();
  for (std::size_t i = 0; i < offer_.files.size(); ++i) {
    if (has_linked(offer_.files[i], mine)) continue;
    wanted_.push_back(i);
    want.strings.push_back(std::to_string(i));
  }
  open_next();
  if (wanted_.empty()) {
    publish();
    return {{.op = LinkOp::kCopyEnd}};
  }
  return {want};
}

/// Those of another version of the checkpoint, such as one without metrics.
std::vector<StoredFile> CopyReceiver::files_here() const {
  if (offer_.checkpoint.empty()) return {};
  try {
    return checkpoint::read_contents(final_folder()).files;
  } catch (const Error&) {  // there is none
    return {};
  }
}

bool CopyReceiver::has_linked(const StoredFile& offered, const std::vector<StoredFile>& mine) const {
  const StoredFile* const have = find(mine, offered.name);
  if (have == nullptr || have->digest != offered.digest || have->bytes != offered.bytes) return false;
  try {
    checkpoint::Contents one;
    one.files.push_back(*have);
    checkpoint::verify_files(final_folder(), one);
  } catch (const Error&) {  // it is damaged: another one is needed
    return false;
  }
  return file_operations::duplicate(final_folder() / offered.name, partial_ / offered.name) == 0;
}

/// Begins the next file that has bytes; those without are complete at once.
void CopyReceiver::open_next() {
  for (; !wanted_.empty() && !sink_;) {
    const StoredFile& file = offer_.files[wanted_.front()];
    auto sink = std::make_unique<FileSink>(partial_ / file.name);
    sink->begin(file.bytes);
    if (file.bytes == 0) {
      sink->finish();
      wanted_.pop_front();
      continue;
    }
    sink_ = std::move(sink);
    digest_ = std::make_unique<checkpoint::Digest>(checkpoint::kind_of(file.digest));
    written_ = 0;
  }
}

CopyReceiver::Answers CopyReceiver::write(const LinkMessage& message) {
  if (wanted_.empty() || message.number != static_cast<int64_t>(wanted_.front()) || message.strings.size() != 1)
    throw PeerError("malformed message: not the next part of a file");
  const StoredFile& file = offer_.files[wanted_.front()];
  const std::string& bytes = message.strings.front();
  if (bytes.empty() || std::ssize(bytes) > file.bytes - written_)
    throw PeerError("malformed message: more bytes of {} than announced", file.name);
  sink_->write(bytes);
  digest_->add(bytes);
  written_ += std::ssize(bytes);
  taken_ += std::ssize(bytes);
  if (written_ == file.bytes) {
    if (const std::string found = digest_->text(); found != file.digest)
      throw OtherBytes("{}: the bytes that arrived differ from those of the original (checksum {}, not {})", file.name,
                       found, file.digest);
    sink_->finish();
    sink_.reset();
    wanted_.pop_front();
    open_next();
  }
  if (!wanted_.empty()) return {{.op = LinkOp::kCopyTook, .number = taken_}};
  publish();
  return {{.op = LinkOp::kCopyEnd}};
}

/// That the checkpoint consists of the offered files.
void CopyReceiver::check_complete() const {
  const checkpoint::Contents contents = checkpoint::read_contents(partial_);
  if (contents.step != step_of_checkpoint(offer_.checkpoint))
    throw MachineError("the manifest offered as {} is of step {}", offer_.checkpoint, contents.step);
  for (const StoredFile& file : contents.files) {
    const StoredFile* const offered = find(offer_.files, file.name);
    if (offered == nullptr || offered->bytes != file.bytes || offered->digest != file.digest)
      throw MachineError("{} was not copied as its manifest lists it: {}", offer_.checkpoint, file.name);
  }
  for (const StoredFile& file : offer_.files)
    if (!is_about_all(file.name) && find(contents.files, file.name) == nullptr)
      throw MachineError("{} has a file that its manifest does not list: {}", offer_.checkpoint, file.name);
}

void CopyReceiver::publish() {
  if (offer_.checkpoint.empty()) {
    publish_files();
  } else {
    check_complete();
    publish_folder(partial_, final_folder(), checkpoint::kManifestFile);
    const auto newest = checkpoint::newest_checkpoint(output_dir_);
    if (newest) checkpoint::link_latest(output_dir_, newest->folder);
    if (newest && keep_) checkpoint::rotate(output_dir_, *keep_, newest->step);
  }
  drop();
}

/// As a run saves its model: weights are never beside a configuration of others.
void CopyReceiver::publish_files() const {
  if (std::any_of(offer_.files.begin(), offer_.files.end(), is_weights)) {
    if (find(offer_.files, checkpoint::kSumsFile) == nullptr) checkpoint::remove_signature(output_dir_);
    for (const StoredFile& file : offer_.files)
      if (is_weights(file) && file_operations::remove_file(output_dir_ / file.name) != 0 && errno != ENOENT)
        throw machine_error("remove", output_dir_ / file.name, errno);
  }
  for (const StoredFile& file : offer_.files) publish_written(partial_ / file.name, output_dir_ / file.name);
}

void CopyReceiver::drop() {
  receiving_ = false;
  sink_.reset();
  digest_.reset();
  wanted_.clear();
  taken_ = 0;
  if (!partial_.empty()) file_operations::remove_tree(partial_);
  partial_.clear();
}

}  // namespace trainer::launch
