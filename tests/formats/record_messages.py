"""The messages of SageMaker's record.proto, as protobuf's own classes."""

from __future__ import annotations

from typing import Any


def record_messages() -> dict[str, Any]:
    """Protobuf's own classes of the messages in record.proto, by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="record.proto", package="a", syntax="proto2")

    def add(to: Any, name: str, number: int, kind: int, *, many: bool = False, of: str = "") -> Any:
        label = kinds.LABEL_REPEATED if many else kinds.LABEL_OPTIONAL
        return to.field.add(name=name, number=number, type=kind, label=label, type_name=of or None)

    tensors = {"Float32": kinds.TYPE_FLOAT, "Float64": kinds.TYPE_DOUBLE, "Int32": kinds.TYPE_INT32}
    for name, kind in tensors.items():
        tensor = file.message_type.add(name=f"{name}Tensor")
        for field, number, type_ in (("values", 1, kind), ("keys", 2, 4), ("shape", 3, 4)):
            add(tensor, field, number, type_, many=True).options.packed = True
    blob = file.message_type.add(name="Bytes")
    add(blob, "value", 1, kinds.TYPE_BYTES, many=True)
    add(blob, "content_type", 2, kinds.TYPE_STRING)
    value = file.message_type.add(name="Value")
    value.oneof_decl.add(name="value")
    for name, number in (("Float32Tensor", 2), ("Float64Tensor", 3), ("Int32Tensor", 7)):
        field_name = name.lower().replace("tensor", "_tensor")
        add(value, field_name, number, kinds.TYPE_MESSAGE, of=f".a.{name}").oneof_index = 0
    add(value, "bytes", 9, kinds.TYPE_MESSAGE, of=".a.Bytes").oneof_index = 0
    record = file.message_type.add(name="Record")
    for name, number in (("features", 1), ("label", 2)):
        entry = record.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        add(entry, "key", 1, kinds.TYPE_STRING)
        add(entry, "value", 2, kinds.TYPE_MESSAGE, of=".a.Value")
        add(record, name, number, kinds.TYPE_MESSAGE, many=True, of=f".a.Record.{entry.name}")
    for name, number in (("uid", 3), ("metadata", 4), ("configuration", 5)):
        add(record, name, number, kinds.TYPE_STRING)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"a.{name}"))
        for name in ("Record", "Value")
    }
