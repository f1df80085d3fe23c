import fc from 'fast-check'
import type { Json, OpenApi } from './openapi.ts'

const LIST_MAX = 3
const INT32_MAX = 2 ** 31 - 1

/** Values that a schema allows, the edges of its ranges and its examples more often than others. */
export function valuesOf(api: OpenApi, given: Json): fc.Arbitrary<unknown> {
  const schema = api.resolve(given)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  const union = schema.anyOf ?? schema.oneOf
  if (union !== undefined) return fc.oneof(...union.map((one: Json) => valuesOf(api, one)))
  const values = VALUES[String(schema.type)]?.(api, schema) ?? fc.jsonValue({ maxDepth: 2 })
  return schema.examples === undefined ? values : fc.oneof(fc.constantFrom(...schema.examples), values)
}

const VALUES: Record<string, (api: OpenApi, schema: Json) => fc.Arbitrary<unknown>> = {
  object: (api, { properties = {}, required = [], additionalProperties, propertyNames }) => {
    const known = fc.record(
      Object.fromEntries(Object.entries(properties).map(([key, schema]) => [key, valuesOf(api, schema)])),
      { requiredKeys: required },
    )
    if (typeof additionalProperties !== 'object') return known
    const keys =
      propertyNames === undefined ? fc.string() : (valuesOf(api, propertyNames) as fc.Arbitrary<string>)
    return fc.dictionary(keys, valuesOf(api, additionalProperties), {
      maxKeys: LIST_MAX,
      noNullPrototype: true,
    })
  },
  array: (api, { items, minItems = 0, maxItems = LIST_MAX }) =>
    fc.array(valuesOf(api, items), {
      minLength: minItems,
      maxLength: Math.min(maxItems, minItems + LIST_MAX),
    }),
  string: (_, { format, pattern, minLength = 0, maxLength = 30 }) => {
    if (format === 'date-time')
      return fc
        .date({ min: new Date('2000-01-01'), max: new Date('2100-01-01'), noInvalidDate: true })
        .map((date) => date.toISOString())
    // fast-check does not know all classes of characters.
    if (pattern !== undefined && !pattern.includes('\\p{'))
      return (
        fc
          // What a name must not begin with is left to chance.
          .stringMatching(new RegExp(pattern.replace(/\(\?!(?:\(\?:[^)]*\)|[^)])*\)/, ''), 'u'))
          .map((text) => text.slice(0, maxLength))
      )
    return fc.string({
      unit: fc.oneof(fc.constant('a'), ODD_CHARACTERS),
      minLength,
      maxLength: Math.min(maxLength, 30),
    })
  },
  integer: (_, { minimum = -INT32_MAX, maximum = INT32_MAX }) =>
    fc.oneof(
      fc.constantFrom(minimum, maximum),
      fc.integer({ min: Math.max(minimum, -INT32_MAX), max: Math.min(maximum, INT32_MAX) }),
    ),
  number: (_, { minimum = 0, maximum = 1e6 }) => fc.double({ min: minimum, max: maximum, noNaN: true }),
  boolean: () => fc.boolean(),
  null: () => fc.constant(null),
}

const ODD_CHARACTERS = fc.constantFrom(
  '\u00e9',
  '\u202e',
  '\u{1f42d}',
  '\u0301',
  '\n',
  '"',
  '\\',
  "'",
  '/',
  '\u2028',
  '%',
  '$',
)

/** Text that has broken programs before. */
export const NASTY_TEXTS: readonly string[] = [
  ...[
    '',
    ' ',
    '.',
    '..',
    '../..',
    '../../../../etc/shadow',
    '/..',
    '%2e%2e%2f',
    '....//',
    '/proc/self/environ',
  ],
  ...[
    '\0',
    'a\0b',
    '\ud800',
    '\udfff\ud800',
    '\u202egnp.exe',
    '\ufeff',
    '\u{1f42d}'.repeat(300),
    'e\u0301',
    '\r\nX-Evil: 1',
  ],
  ...[
    "' OR 1=1; --",
    '"; DROP TABLE sandboxes; --',
    '$(reboot)',
    '`id`',
    '{{7*7}}',
    '<script>alert(1)</script>',
  ],
  ...[
    '__proto__',
    'constructor',
    'toString',
    'null',
    'undefined',
    'NaN',
    'sb-',
    'sb-0000000000000000',
    'run-2222222222222222',
  ],
  'x'.repeat(300),
  'y'.repeat(5000),
]

/** Values of the wrong type or beyond every range. */
export const NASTY_VALUES: readonly unknown[] = [
  ...NASTY_TEXTS,
  ...[null, true, false, 0, -0, -1, 0.5, 1000, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308, 5e-324],
  ...[[], {}, [[]], [null], { a: 1 }, { length: 1e9 }, { $ref: '#' }],
]
