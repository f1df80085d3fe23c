import { BinaryReader, BinaryWriter, WireType } from '@bufbuild/protobuf/wire'

/**
 * A protobuf message as the list of its fields, in the order they were written. CRIU's messages have many fields and
 * get more with every release. A list keeps all of them and encodes back to the same bytes without a schema.
 */
export type Message = Field[]

export type Field =
  | { readonly no: number; readonly type: WireType.Varint; value: bigint }
  | { readonly no: number; readonly type: WireType.LengthDelimited; value: Uint8Array }
  | { readonly no: number; readonly type: WireType.Bit64 | WireType.Bit32; value: Uint8Array }

export function decodeMessage(bytes: Uint8Array): Message {
  const reader = new BinaryReader(bytes)
  const message: Message = []
  while (reader.pos < reader.len) {
    const [no, type] = reader.tag()
    if (type === WireType.Varint) message.push({ no, type, value: BigInt(reader.uint64()) })
    else if (type === WireType.LengthDelimited) message.push({ no, type, value: reader.bytes() })
    else if (type === WireType.Bit64 || type === WireType.Bit32) {
      message.push({ no, type, value: reader.skip(type) })
    } else throw new Error(`field ${no} has wire type ${type}, which CRIU does not write`)
  }
  return message
}

export function encodeMessage(message: Message): Uint8Array {
  const writer = new BinaryWriter()
  for (const field of message) {
    writer.tag(field.no, field.type)
    if (field.type === WireType.Varint) writer.uint64(field.value)
    else if (field.type === WireType.LengthDelimited) writer.bytes(field.value)
    else writer.raw(field.value)
  }
  return writer.finish()
}

export function findUint(message: Message, no: number): bigint | undefined {
  const field = message.find((candidate) => candidate.no === no)
  if (field === undefined) return undefined
  if (field.type !== WireType.Varint) throw new Error(`field ${no} is not a number`)
  return field.value
}

export function getUint(message: Message, no: number): bigint {
  const value = findUint(message, no)
  if (value === undefined) throw new Error(`field ${no} is missing`)
  return value
}

/** Returns all values of a repeated field of bytes, strings or messages. */
export function getAllBytes(message: Message, no: number): Uint8Array[] {
  return message.flatMap((field) => {
    if (field.no !== no) return []
    if (field.type !== WireType.LengthDelimited) throw new Error(`field ${no} is not a message`)
    return [field.value]
  })
}

export function findMessage(message: Message, no: number): Message | undefined {
  const [bytes] = getAllBytes(message, no)
  return bytes && decodeMessage(bytes)
}

export function getMessage(message: Message, no: number): Message {
  const found = findMessage(message, no)
  if (found === undefined) throw new Error(`field ${no} is missing`)
  return found
}

export function findText(message: Message, no: number): string | undefined {
  const [bytes] = getAllBytes(message, no)
  return bytes && Buffer.from(bytes).toString('utf8')
}

export function setUint(message: Message, no: number, value: bigint): void {
  setField(message, { no, type: WireType.Varint, value })
}

export function setBytes(message: Message, no: number, value: Uint8Array): void {
  setField(message, { no, type: WireType.LengthDelimited, value })
}

export function setMessage(message: Message, no: number, value: Message): void {
  setBytes(message, no, encodeMessage(value))
}

/** Replaces the field, or inserts it where CRIU's encoder would: fields are ordered by number. */
function setField(message: Message, field: Field): void {
  const at = message.findIndex((candidate) => candidate.no >= field.no)
  if (at === -1) message.push(field)
  else message.splice(at, message[at]?.no === field.no ? 1 : 0, field)
}
