#include "engine/launch/copy_sender.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "engine/base/errors.h"
#include "engine/launch/background.h"

namespace trainer::launch {

CopySender::CopySender(std::filesystem::path folder, std::function<CopyOffer()> list)
    : folder_(std::move(folder)), list_(in_background(std::move(list))) {}

void CopySender::end(const std::string& why, bool receiver_failed) {
  phase_ = Phase::kEnded;
  why_ = why;
  receiver_failed_ = receiver_failed;
}

void CopySender::take(const LinkMessage& message) {
  const std::string why = message.strings.empty() ? "" : message.strings.front();
  if (has_ended() || phase_ == Phase::kListing) return;  // an answer to an offer that was withdrawn
  if (message.op == LinkOp::kCopyTook) {
    if (phase_ != Phase::kOffered) took_ = message.number;  // otherwise of an earlier copy
  } else if (message.op == LinkOp::kCopyEnd || message.code != 0) {
    end(message.code == 0 ? "" : why, message.code != 0 && message.code != kOtherBytes);
  } else if (message.op == LinkOp::kCopyWant && phase_ == Phase::kOffered) {
    for (auto text = message.strings.rbegin(); text != message.strings.rend(); ++text) {
      std::size_t file = offer_.files.size();
      std::from_chars(text->data(), text->data() + text->size(), file);
      if (file >= offer_.files.size()) throw PeerError("malformed message: no file has the number {}", *text);
      if (offer_.files[file].bytes > 0) wanted_.push_back(file);
    }
    phase_ = Phase::kSending;
    read_next();
  } else {
    throw PeerError("malformed message: not expected while a copy is sent");
  }
}

void CopySender::serve(MachineLine& line) {
  if (has_ended()) return;
  if (!line.is_open()) return end("it was lost", true);
  try {
    if (phase_ == Phase::kListing && is_done(list_)) {
      offer_ = list_.get();
      line.send(to_message(offer_));
      phase_ = Phase::kOffered;
    }
    if (phase_ == Phase::kSending) send_parts(line);
  } catch (const Error& error) {
    line.send({.op = LinkOp::kCopyPart, .code = 1, .strings = {error.what()}});
    end(error.what(), false);
  }
}

/// A line with unsent bytes gets no more: pings and the ranks' messages must not wait behind them.
void CopySender::send_parts(MachineLine& line) {
  while (phase_ == Phase::kSending && !line.has_unsent() && sent_ - took_ < kCopyWindow && is_done(part_)) {
    const Part part = part_.get();
    line.send({.op = LinkOp::kCopyPart, .number = static_cast<int64_t>(part.file), .strings = {line.hide(part.bytes)}});
    sent_ += std::ssize(part.bytes);
    read_next();
  }
}

void CopySender::read_next() {
  if (!wanted_.empty() && read_ == offer_.files[wanted_.back()].bytes) {
    wanted_.pop_back();
    file_.reset();
    read_ = 0;
  }
  if (wanted_.empty()) {
    phase_ = Phase::kSent;
    return;
  }
  part_ = in_background([this, file = wanted_.back()] { return read_part(file); });
}

CopySender::Part CopySender::read_part(std::size_t file) {
  const checkpoint::StoredFile& about = offer_.files[file];
  const std::filesystem::path path = folder_ / about.name;
  if (!file_) file_.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file_) throw InputError("cannot read {}: {}", path.string(), std::strerror(errno));
  Part part{file, std::string(static_cast<std::size_t>(std::min(kCopyPart, about.bytes - read_)), '\0')};
  for (std::size_t have = 0; have < part.bytes.size();) {
    const ssize_t count = read(file_.get(), part.bytes.data() + have, part.bytes.size() - have);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      throw InputError("cannot read {}: {}", path.string(), count < 0 ? std::strerror(errno) : "it became shorter");
    have += static_cast<std::size_t>(count);
  }
  read_ += std::ssize(part.bytes);
  return part;
}

}  // namespace trainer::launch
