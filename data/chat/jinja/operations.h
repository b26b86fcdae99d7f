// Operators, attributes and items.
#pragma once

#include <string_view>
#include <vector>

#include "data/chat/jinja/budget.h"
#include "data/chat/jinja/value.h"

namespace trainer::data::jinja {

/// `text` as markup if `like` is markup, else as a plain string.
Value text_like(const Value& like, std::string text);

/// + - * / // % **. Errors: BadOperation.
Value binary(std::string_view sign, const Value& left, const Value& right, Budget& budget);
Value negative(const Value& value);
bool contains(const Value& container, const Value& item, Budget& budget);
/// As the functions of value.h, charged to the budget.
bool equal(const Value& left, const Value& right, Budget& budget);
int compare(const Value& left, const Value& right, Budget& budget);
/// == != < <= > >= in, `not in`.
bool compare_by(std::string_view sign, const Value& left, const Value& right, Budget& budget);

/// `object.name` and `object['name']`: a dict's key, a namespace's field or a field of `loop`; else undefined.
Value attribute(const Value& object, std::string_view name);
/// `object[key]`.
Value item(const Value& object, const Value& key, Budget& budget);
/// `object[start:stop:step]`; each may be None.
Value slice(const Value& object, const Value& start, const Value& stop, const Value& step, Budget& budget);

/// The items that a `for` iterates over. Consumes a lazy sequence. Errors: BadOperation when it is not iterable.
std::vector<Value> items_of(const Value& value, Budget& budget);

}  // namespace trainer::data::jinja
