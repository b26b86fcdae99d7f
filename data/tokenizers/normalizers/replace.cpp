#include "data/tokenizers/normalizers/normalizer.h"
#include "data/tokenizers/text/read_pattern.h"

namespace trainer::data {
namespace {

class Replace : public Normalizer {
 public:
  explicit Replace(const JsonView& view)
      : pattern_(read_pattern(view.at("pattern"))), content_(view.at("content").text()) {}

  void apply(AlignedText& text) const override {
    std::string_view view = text.view();
    if (view.empty()) return;
    Rewrite out(text);
    size_t rest = 0;
    pattern_.for_each_match(view, [&](size_t begin, size_t end) {
      out.copy(rest, begin);
      if (end > 0) {
        out.insert_for(content_, end - 1);
      } else {
        out.insert(content_, {0, 0});
      }
      rest = end;
    });
    if (rest == 0 && out.size() == 0) return;
    out.copy(rest, view.size());
    out.finish(text);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

}  // namespace

std::unique_ptr<Normalizer> read_replace(const JsonView& view) {
  return std::make_unique<Replace>(view);
}

}  // namespace trainer::data
