import { z } from 'zod'
import { booleanTextOr, integerText, integerTextOr, textField, timestampField } from './fields.ts'
import { languageField } from './runs.ts'

const POSITION_MAX = 2 ** 48
const NAME_MAX_BYTES = 400
export const ROWS_MAX = 500
export const COLUMNS_MAX = 100
/** One answer is built in memory. */
export const CELLS_MAX = 20_000

export const variableNameField = textField({ maxBytes: NAME_MAX_BYTES, minLength: 1 }).describe(
  'The name of a variable.',
)

const variableSchema = z
  .strictObject({
    name: z.string(),
    type: z.string(),
    shape: z
      .array(z.int())
      .readonly()
      .optional()
      .describe('Elements of a list, rows and columns of a table, sides of an array.'),
    bytes: z.int().optional().describe('An estimate. Absent for types that are not known.'),
    preview: z.string().describe('At most 200 characters, on one line.'),
    opens: z.enum(['table', 'image', 'text']).optional().describe('What reading this variable alone shows.'),
  })
  .meta({
    id: 'Variable',
    examples: [
      {
        name: 'sales',
        type: 'DataFrame',
        shape: [1000, 4],
        bytes: 32000,
        preview: 'day datetime64[ns], shop object, price float64, n int64',
        opens: 'table',
      },
    ],
  })

const contextVariablesSchema = z.strictObject({
  name: z.string().describe('The context.'),
  language: languageField,
  state: z
    .enum(['idle', 'busy'])
    .describe('`busy`: a run is under way. Its variables are those of before, as far as they are known.'),
  variables: z.array(variableSchema).readonly(),
  more: z.boolean().describe('There are more variables than these.'),
})

export const variablesSchema = z
  .strictObject({
    isLive: z.boolean().describe('False: the sandbox sleeps, and these were recorded when it was saved.'),
    at: timestampField.optional().describe('When they were read. Absent when none were recorded.'),
    contexts: z.array(contextVariablesSchema).readonly().describe('Contexts that have run something.'),
  })
  .meta({
    id: 'Variables',
    examples: [
      {
        isLive: true,
        at: '2026-01-01T12:00:00.000Z',
        contexts: [
          {
            name: 'default',
            language: 'python',
            state: 'idle',
            variables: [{ name: 'x', type: 'int', bytes: 28, preview: '42' }],
            more: false,
          },
        ],
      },
    ],
  })

export const readVariableQuery = z.strictObject({
  offset: integerTextOr(0, { min: 0, max: POSITION_MAX }).describe('The first row.'),
  limit: integerTextOr(100, { min: 0, max: ROWS_MAX }).describe(
    `The largest number of rows; \`limit\` times \`columns\` is at most ${CELLS_MAX}.`,
  ),
  columnOffset: integerTextOr(0, { min: 0, max: POSITION_MAX }).describe('The first column.'),
  columns: integerTextOr(50, { min: 1, max: COLUMNS_MAX }).describe('The largest number of columns.'),
  sort: integerText({ min: 0, max: POSITION_MAX })
    .exactOptional()
    .describe('The position of the column to sort by, from 0.'),
  descending: booleanTextOr(false).describe('Sort the largest first. Missing values are always last.'),
  filter: z
    .record(z.string().regex(/^\d{1,6}$/, 'must be the position of a column'), textField({ maxBytes: 400 }))
    .exactOptional()
    .describe(
      'As `filter.2=text`: only rows whose column 2 contains this text, in any case, or compares with it: `=a`, `!=a`, `>5`, `<5`, `>=5`, `<=5`. At most 8.',
    ),
})

const tableSchema = z.strictObject({
  columns: z.array(z.strictObject({ name: z.string(), type: z.string() })).readonly(),
  rows: z
    .array(
      z.strictObject({
        label: z.string().describe('What names the row: its index, key or position.'),
        cells: z.array(z.string().nullable()).readonly().describe('Missing values are null.'),
      }),
    )
    .readonly(),
  rowCount: z.int(),
  matchCount: z.int().describe('Rows that pass the filters.'),
  columnCount: z.int(),
  part: z.string().optional().describe('Which part of an array with more dimensions this is.'),
})

export const variableDetailSchema = z
  .strictObject({
    variable: variableSchema,
    table: tableSchema.optional(),
    image: z
      .strictObject({ png: z.string(), width: z.int(), height: z.int() })
      .optional()
      .describe('A PNG of at most 512 pixels a side, in base64, and the size of the original.'),
    text: z.string().optional().describe('The first 65,536 characters of a text.'),
  })
  .meta({
    id: 'VariableDetail',
    examples: [
      {
        variable: { name: 'x', type: 'list', shape: [1], bytes: 84, preview: '[1]', opens: 'table' },
        table: {
          columns: [
            { name: 'value', type: '' },
            { name: 'type', type: '' },
          ],
          rows: [{ label: '0', cells: ['1', 'int'] }],
          rowCount: 1,
          matchCount: 1,
          columnCount: 2,
        },
      },
    ],
  })

export type VariablesAnswer = z.output<typeof variablesSchema>
export type VariableDetailAnswer = z.output<typeof variableDetailSchema>
