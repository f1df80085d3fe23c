import { create, createFileRegistry, type DescService } from '@bufbuild/protobuf'
import {
  type DescriptorProto,
  DescriptorProtoSchema,
  type EnumDescriptorProto,
  EnumDescriptorProtoSchema,
  FieldDescriptorProtoSchema,
  FileDescriptorProtoSchema,
  file_google_protobuf_timestamp,
  FieldDescriptorProto_Label as Label,
  MethodDescriptorProtoSchema,
  OneofDescriptorProtoSchema,
  ServiceDescriptorProtoSchema,
  FieldDescriptorProto_Type as Type,
} from '@bufbuild/protobuf/wkt'

/** The scalar types of protobuf that these services use. */
const SCALARS: Record<string, Type> = {
  string: Type.STRING,
  bytes: Type.BYTES,
  bool: Type.BOOL,
  uint32: Type.UINT32,
  sint32: Type.SINT32,
  int64: Type.INT64,
}

/**
 * `NUMBER TYPE`, `NUMBER optional TYPE`, `NUMBER repeated TYPE`, `NUMBER map` (string to string), or `NUMBER ONEOF: TYPE`
 * for a member of that oneof. A type is a scalar, `Timestamp`, or a message or enum of the same file.
 */
export type Fields = Readonly<Record<string, string>>

export interface ServiceFile {
  readonly package: string
  readonly service: string
  /** Method to `REQUEST -> RESPONSE`, either of which may begin with `stream `. */
  readonly methods: Readonly<Record<string, string>>
  readonly messages: Readonly<Record<string, Fields>>
  readonly enums: Readonly<Record<string, Readonly<Record<string, number>>>>
}

/** Builds the descriptor of a service from its description, so that no generated code is needed. */
export function describeFile(file: ServiceFile): DescService {
  const nameOf = (type: string) =>
    type === 'Timestamp' ? '.google.protobuf.Timestamp' : `.${file.package}.${type}`
  const proto = create(FileDescriptorProtoSchema, {
    name: `${file.package}.proto`,
    package: file.package,
    syntax: 'proto3',
    dependency: ['google/protobuf/timestamp.proto'],
    messageType: Object.entries(file.messages).map(([name, fields]) =>
      describeMessage(name, fields, { nameOf, isEnum: (type) => type in file.enums }),
    ),
    enumType: Object.entries(file.enums).map(([name, values]) => describeEnum(name, values)),
    service: [
      create(ServiceDescriptorProtoSchema, {
        name: file.service,
        method: Object.entries(file.methods).map(([name, signature]) =>
          describeMethod(name, signature, nameOf),
        ),
      }),
    ],
  })
  const registry = createFileRegistry(proto, () => file_google_protobuf_timestamp)
  const service = registry.getService(`${file.package}.${file.service}`)
  if (service === undefined) throw new Error(`${file.package} has no service ${file.service}`)
  return service
}

interface Names {
  readonly nameOf: (type: string) => string
  readonly isEnum: (type: string) => boolean
}

const FIELD = /^(?<number>\d+) (?:(?<label>optional|repeated) |(?<oneof>\w+): )?(?<type>\w+)$/

function describeMessage(name: string, fields: Fields, { nameOf, isEnum }: Names): DescriptorProto {
  const message = create(DescriptorProtoSchema, { name })
  const oneofs = new Map<string, number>()
  const optional: (() => void)[] = []
  for (const [fieldName, text] of Object.entries(fields)) {
    const { number, label, oneof, type = '' } = FIELD.exec(text)?.groups ?? {}
    const field = create(FieldDescriptorProtoSchema, {
      name: fieldName,
      jsonName: fieldName.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase()),
      number: Number(number),
      label: label === 'repeated' || type === 'map' ? Label.REPEATED : Label.OPTIONAL,
    })
    message.field.push(field)
    if (type === 'map') {
      const entry = `${fieldName[0]?.toUpperCase()}${fieldName.slice(1)}Entry`
      message.nestedType.push(mapEntry(entry, nameOf, isEnum))
      field.type = Type.MESSAGE
      field.typeName = `${nameOf(name)}.${entry}`
      continue
    }
    const scalar = SCALARS[type]
    field.type = scalar ?? (isEnum(type) ? Type.ENUM : Type.MESSAGE)
    if (scalar === undefined) field.typeName = nameOf(type)
    if (oneof !== undefined) {
      if (!oneofs.has(oneof)) {
        oneofs.set(oneof, message.oneofDecl.length)
        message.oneofDecl.push(create(OneofDescriptorProtoSchema, { name: oneof }))
      }
      field.oneofIndex = oneofs.get(oneof) ?? 0
    }
    if (label === 'optional') {
      // The oneofs of optional fields come after all others.
      optional.push(() => {
        field.proto3Optional = true
        field.oneofIndex = message.oneofDecl.length
        message.oneofDecl.push(create(OneofDescriptorProtoSchema, { name: `_${fieldName}` }))
      })
    }
  }
  for (const finish of optional) finish()
  return message
}

function mapEntry(name: string, nameOf: Names['nameOf'], isEnum: Names['isEnum']): DescriptorProto {
  const entry = describeMessage(name, { key: '1 string', value: '2 string' }, { nameOf, isEnum })
  entry.options = { ...create(DescriptorProtoSchema, { options: { mapEntry: true } }).options! }
  return entry
}

function describeEnum(name: string, values: Readonly<Record<string, number>>): EnumDescriptorProto {
  return create(EnumDescriptorProtoSchema, {
    name,
    value: Object.entries(values).map(([name, number]) => ({ name, number })),
  })
}

function describeMethod(name: string, signature: string, nameOf: Names['nameOf']) {
  const [input = '', output = ''] = signature.split(' -> ')
  return create(MethodDescriptorProtoSchema, {
    name,
    inputType: nameOf(input.replace('stream ', '')),
    outputType: nameOf(output.replace('stream ', '')),
    clientStreaming: input.startsWith('stream '),
    serverStreaming: output.startsWith('stream '),
  })
}
