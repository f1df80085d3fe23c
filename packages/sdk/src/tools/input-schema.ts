import { DormouseError } from '../error.ts'

/** One input of a tool, as JSON Schema. */
export interface InputField {
  readonly type: 'string' | 'integer'
  readonly description: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
}

/** The inputs of a tool, as JSON Schema. */
export interface InputSchema {
  readonly type: 'object'
  readonly properties: Readonly<Record<string, InputField>>
  readonly required: readonly string[]
  readonly additionalProperties: false
}

export function inputSchema(
  properties: Readonly<Record<string, InputField>>,
  required: readonly string[],
): InputSchema {
  return { type: 'object', properties, required, additionalProperties: false }
}

/**
 * Checks what a model sent. Throws `invalid_argument` with every problem at once, so that the model corrects all of them
 * in its next call. Inputs that are null count as absent: some models fill all of them in.
 */
export function checkInput(schema: InputSchema, input: unknown): Readonly<Record<string, unknown>> {
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw wrongInput(['the input must be an object'])
  const given = Object.entries(input).filter(([, value]) => value !== null && value !== undefined)
  const names = new Set(given.map(([name]) => name))
  const problems = [
    ...schema.required.filter((name) => !names.has(name)).map((name) => `${name}: is missing`),
    ...given.flatMap(([name, value]) => problemsOf(name, value, schema.properties[name])),
  ]
  if (problems.length > 0) throw wrongInput(problems)
  return Object.fromEntries(given)
}

function problemsOf(name: string, value: unknown, field: InputField | undefined): string[] {
  if (field === undefined) return [`${name}: is not an input of this tool`]
  if (field.type === 'string') {
    if (typeof value !== 'string') return [`${name}: must be text`]
    if (value.length < (field.minLength ?? 0)) return [`${name}: must not be empty`]
    return []
  }
  if (!Number.isSafeInteger(value)) return [`${name}: must be a whole number`]
  const { minimum = -Infinity, maximum = Infinity } = field
  if ((value as number) < minimum || (value as number) > maximum)
    return [`${name}: must be from ${minimum} to ${maximum}`]
  return []
}

function wrongInput(problems: readonly string[]): DormouseError {
  const hint = 'Correct the named input and call again.'
  return new DormouseError('invalid_argument', problems.join('; '), { hint })
}
