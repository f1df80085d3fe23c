import { z } from 'zod'

/** The fields that several requests share. Each refuses what no later layer could keep or show as it was sent. */

/** Anything but an id: routes take either, and one must not pass for the other. */
const NAME = /^(?!(?:sb|bw|sn|ly|vol|run)-[2-9a-km-np-z]{16}$)[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/
const NAME_RULE =
  'must be 1-63 letters, digits, ".", "_" or "-", begin with a letter or digit, and not look like an id'

export const nameField = z.string().regex(NAME, NAME_RULE)

const ID = '[2-9a-km-np-z]{16}'
export const sandboxIdField = z.string().regex(new RegExp(`^sb-${ID}$`), 'is not the id of a sandbox')
export const snapshotIdField = z.string().regex(new RegExp(`^sn-${ID}$`), 'is not the id of a snapshot')
export const runIdField = z.string().regex(new RegExp(`^run-${ID}$`), 'is not the id of a run')

/** How a route names a sandbox: by its id, or by the name that its owner gave it. */
export const sandboxRefField = z
  .union([sandboxIdField, nameField], { error: 'is neither the id nor the name of a sandbox' })
  .describe('Id or name of the sandbox.')

export const timestampField = z.iso.datetime().describe('UTC, ISO 8601.')

/** A lone surrogate has no UTF-8 form: it would arrive as something else. */
const LONE_SURROGATE = /\p{Surrogate}/u

/** Text that goes into a process, a file name or a database row. */
export function textField({ maxBytes, minLength = 0 }: { maxBytes: number; minLength?: number }) {
  return z
    .string()
    .min(minLength)
    .max(maxBytes)
    .refine((value) => !value.includes('\0'), 'must not contain NUL bytes')
    .refine((value) => !LONE_SURROGATE.test(value), 'is not valid Unicode')
    .refine(
      // A UTF-16 unit is at most three bytes: only what could be too long is counted.
      (value) => value.length * 3 <= maxBytes || utf8Bytes(value) <= maxBytes,
      `must be at most ${maxBytes} bytes of UTF-8`,
    )
}

/** A number in a query string or a header. */
export function integerText(range: { min: number; max: number }) {
  return textToInteger(range).meta(integerMeta(range))
}

/** The same, with what it is when it is not there. */
export function integerTextOr(byDefault: number, range: { min: number; max: number }) {
  return textToInteger(range)
    .default(byDefault)
    .meta({ ...integerMeta(range), default: byDefault })
}

function textToInteger({ min, max }: { min: number; max: number }) {
  return z
    .string()
    .regex(/^-?\d{1,16}$/, 'must be a whole number')
    .transform(Number)
    .pipe(z.int().min(min).max(max))
}

/** On the wire it is digits; the OpenAPI document calls that an integer. */
function integerMeta({ min, max }: { min: number; max: number }) {
  return { type: 'integer', minimum: min, maximum: max, pattern: undefined }
}

const textToBoolean = z.enum(['true', 'false']).transform((value) => value === 'true')
const BOOLEAN_META = { type: 'boolean', enum: undefined }

export const booleanText = textToBoolean.meta(BOOLEAN_META)

export function booleanTextOr(byDefault: boolean) {
  return textToBoolean.default(byDefault).meta({ ...BOOLEAN_META, default: byDefault })
}

export const PAGE_LIMIT_MAX = 1000
export const PAGE_LIMIT_DEFAULT = 100
const CURSOR_MAX_CHARACTERS = 512

/** What every list takes. */
export const pageQuery = {
  limit: integerTextOr(PAGE_LIMIT_DEFAULT, { min: 1, max: PAGE_LIMIT_MAX }).describe('How many at most.'),
  cursor: z
    .string()
    .regex(/^[A-Za-z0-9_-]+$/, 'is not a cursor')
    .max(CURSOR_MAX_CHARACTERS)
    .exactOptional()
    .describe('`nextCursor` of the page before. Means nothing to anybody else.'),
}

/** What every list answers. */
export function pageOf<Item extends z.ZodType>(item: Item) {
  return z.strictObject({
    items: z.array(item).readonly(),
    nextCursor: z.string().optional().describe('Absent on the last page.'),
  })
}

function utf8Bytes(text: string): number {
  let bytes = 0
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0
    bytes += point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4
  }
  return bytes
}
