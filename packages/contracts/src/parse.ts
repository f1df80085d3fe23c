import type { z } from 'zod'
import { DormouseError } from './errors.ts'

const WITHHELD = Symbol('values are withheld')

/** Keeps `parseInput` from showing received values of `schema` in errors: any field may hold a secret by mistake. */
export function withhold<Schema extends z.ZodType>(schema: Schema): Schema {
  return Object.assign(schema, { [WITHHELD]: true })
}

/** Parses input at the edge. The error names the first wrong field and shows a shortened value. */
export function parseInput<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  what: string,
): z.output<Schema> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  const issue = parsed.error.issues[0]
  const path =
    issue === undefined
      ? []
      : issue.code === 'unrecognized_keys'
        ? [...issue.path, issue.keys[0]]
        : issue.path
  const field = path.length === 0 ? what : path.join('.')
  const seen = WITHHELD in schema ? '' : ` (saw ${describe(valueAt(value, path))})`
  throw new DormouseError(
    'invalid_argument',
    `${path.length === 0 ? what : `${what}: ${field}`}: ${issue?.message ?? 'is not valid'}${seen}`,
    {
      details: { field },
      cause: parsed.error,
    },
  )
}

function valueAt(value: unknown, path: readonly (PropertyKey | undefined)[]): unknown {
  let at = value
  for (const key of path) {
    if (typeof at !== 'object' || at === null || key === undefined) return undefined
    at = (at as Record<PropertyKey, unknown>)[key]
  }
  return at
}

const SHOWN_CHARACTERS = 60

function describe(value: unknown): string {
  if (value === undefined) return 'nothing'
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : written(value)
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text
}

function written(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // JSON.parse accepts any depth, JSON.stringify does not.
    if (error instanceof RangeError) return 'a value that is nested too deeply'
    throw error
  }
}
