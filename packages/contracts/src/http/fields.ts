import { z } from 'zod'
import { ISOLATIONS } from '../isolation.ts'

/** Fields that several requests share. Each refuses values that a later layer could not store or show unchanged. */

/** Must not look like an id: routes accept both names and ids. */
const NAME = /^(?!(?:sb|bw|sn|ly|vol|run|sv)-[2-9a-km-np-z]{16}$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/
const NAME_RULE =
  'must be 1-63 letters, digits, ".", "_" or "-", begin with a letter or digit, and not look like an id'

export const nameField = z.string().regex(NAME, NAME_RULE)

const ID = '[2-9a-km-np-z]{16}'
export const sandboxIdField = z.string().regex(new RegExp(`^sb-${ID}$`), 'is not the id of a sandbox')
export const snapshotIdField = z.string().regex(new RegExp(`^sn-${ID}$`), 'is not the id of a snapshot')
export const runIdField = z.string().regex(new RegExp(`^run-${ID}$`), 'is not the id of a run')

/** Routes accept the id of a sandbox or the name that its owner gave it. */
export const sandboxRefField = z
  .union([sandboxIdField, nameField], { error: 'is neither the id nor the name of a sandbox' })
  .describe('Id or name of the sandbox.')

const namedSnapshotField = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\/[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, 'is not SANDBOX/NAME')

/** Routes accept the id of a snapshot, or its name after that of its sandbox. */
export const snapshotRefField = z
  .union([snapshotIdField, namedSnapshotField], {
    error: 'is neither the id of a snapshot nor SANDBOX/NAME',
  })
  .describe('Id of the snapshot, or `SANDBOX/NAME`: the id or name of its sandbox, and its name.')

/** Where the sandbox is known, the name of the snapshot alone is enough. */
export const ownSnapshotRefField = z
  .union([snapshotIdField, nameField, namedSnapshotField], {
    error: 'is neither the id nor the name of a snapshot',
  })
  .describe('Id or name of a snapshot of this sandbox, or `SANDBOX/NAME` for one of another sandbox.')

export const timestampField = z.iso.datetime().describe('UTC, ISO 8601.')

/** A lone surrogate has no UTF-8 encoding: it would arrive as another character. */
const LONE_SURROGATE = /\p{Surrogate}/u

/** Text for a process, a file name or a database row. */
export function textField({ maxBytes, minLength = 0 }: { maxBytes: number; minLength?: number }) {
  return z
    .string()
    .min(minLength)
    .max(maxBytes)
    .refine((value) => !value.includes('\0'), 'must not contain NUL bytes')
    .refine((value) => !LONE_SURROGATE.test(value), 'is not valid Unicode')
    .refine((value) => Buffer.byteLength(value) <= maxBytes, `must be at most ${maxBytes} bytes of UTF-8`)
}

/** An integer in a query string or a header. */
export function integerText(range: { min: number; max: number }) {
  return textToInteger(range).meta(integerMeta(range))
}

/** Like `integerText`, with a default. */
export function integerTextOr(defaultValue: number, range: { min: number; max: number }) {
  return textToInteger(range)
    .default(defaultValue)
    .meta({ ...integerMeta(range), default: defaultValue })
}

function textToInteger({ min, max }: { min: number; max: number }) {
  return z
    .string()
    .regex(/^-?\d{1,16}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min).max(max))
}

/** The OpenAPI document calls a string of digits an integer. */
function integerMeta({ min, max }: { min: number; max: number }) {
  return { type: 'integer', minimum: min, maximum: max, pattern: undefined }
}

const textToBoolean = z.enum(['true', 'false']).transform((value) => value === 'true')
const BOOLEAN_META = { type: 'boolean', enum: undefined }

export function booleanTextOr(defaultValue: boolean) {
  return textToBoolean.default(defaultValue).meta({ ...BOOLEAN_META, default: defaultValue })
}

export const PAGE_LIMIT_MAX = 1000
const PAGE_LIMIT_DEFAULT = 100
const CURSOR_MAX_CHARACTERS = 512

/** Query parameters of every list. */
export const pageQuery = {
  limit: integerTextOr(PAGE_LIMIT_DEFAULT, { min: 1, max: PAGE_LIMIT_MAX }).describe(
    'The largest number of items to return.',
  ),
  cursor: z
    .string()
    .regex(/^[A-Za-z0-9_-]+$/, 'is not a cursor')
    .max(CURSOR_MAX_CHARACTERS)
    .exactOptional()
    .describe('`nextCursor` of the previous page. Opaque.'),
}

/** One page of a list. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.strictObject({
    items: z.array(item).readonly(),
    nextCursor: z.string().optional().describe('Absent on the last page.'),
  })
}

export const ISOLATION_TEXT =
  'What is between the sandbox and its host: `process` shares the kernel of the host, `microvm` is a virtual machine with a kernel of its own, if the server offers it.'
export const isolationField = z.enum(ISOLATIONS).describe(ISOLATION_TEXT)
