import { LANGUAGES } from '@dormouse/contracts'
import type { ContextVariables, VariableDetail, VariableInfo, VariableTable } from '@dormouse/engine'
import { AgentValue, malformed } from './agent-value.ts'
import { checkList } from './check-answers.ts'

/** An honest agent sends less than each of these. */
const CONTEXTS_MAX = 16
const VARIABLES_MAX = 500
const DIMENSIONS_MAX = 64
const COLUMNS_MAX = 100
const ROWS_MAX = 500
const NAME_MAX_CHARACTERS = 200
const TEXT_MAX_CHARACTERS = 64 * 1024
const CELL_MAX_CHARACTERS = 400
/** 512 by 512 pixels with four channels that do not compress, in base64. */
const PNG_MAX_CHARACTERS = 1_500_000

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
/** The first bytes of a PNG in base64. */
const PNG_BEGINS = 'iVBORw0KGgo'

/** Control characters, which would act on a terminal, and those that turn the direction of text. */
const ACTING = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu
const ACTING_BESIDE_LINES = /(?![\n\t])[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu

const HALF = /[\ud800-\udbff]$/

export function checkVariables(value: unknown): ContextVariables[] {
  const contexts = checkList(value, 'contexts', checkContext)
  if (contexts.length > CONTEXTS_MAX) throw malformed('list of variables')
  return contexts
}

function checkContext(value: unknown): ContextVariables {
  const context = new AgentValue(value, 'list of variables')
  const variables = context.list('variables')
  if (variables.length > VARIABLES_MAX) context.fail()
  return {
    context: shown(context.text('context'), NAME_MAX_CHARACTERS),
    language: context.oneOf('language', LANGUAGES),
    state: context.oneOf('state', ['idle', 'busy']),
    variables: variables.map(checkVariable),
    more: context.flag('more'),
  }
}

function checkVariable(value: unknown): VariableInfo {
  const info = new AgentValue(value, 'variable')
  return {
    name: shown(info.text('name'), NAME_MAX_CHARACTERS),
    type: shown(info.text('type'), NAME_MAX_CHARACTERS),
    ...(info.has('shape') && { shape: checkShape(info.list('shape')) }),
    ...(info.has('bytes') && { bytes: info.count('bytes') }),
    preview: shown(info.text('preview'), NAME_MAX_CHARACTERS),
    ...(info.has('opens') && { opens: info.oneOf('opens', ['table', 'image', 'text']) }),
  }
}

function checkShape(sides: readonly unknown[]): number[] {
  if (sides.length > DIMENSIONS_MAX) throw malformed('shape')
  return sides.map((side) => new AgentValue({ side }, 'shape').count('side'))
}

export function checkVariableDetail(value: unknown): VariableDetail {
  const answer = new AgentValue(value, 'variable')
  return {
    variable: checkVariable(answer.object('variable')),
    ...(answer.has('table') && { table: checkTable(answer.object('table')) }),
    ...(answer.has('image') && { image: checkImage(answer.object('image')) }),
    ...(answer.has('text') && {
      text: answer
        .text('text')
        .slice(0, TEXT_MAX_CHARACTERS)
        .replace(ACTING_BESIDE_LINES, '\ufffd')
        .replace(HALF, ''),
    }),
  }
}

function checkTable(value: unknown): VariableTable {
  const table = new AgentValue(value, 'table')
  const [columns, rows] = [table.list('columns'), table.list('rows')]
  if (columns.length > COLUMNS_MAX || rows.length > ROWS_MAX) table.fail()
  return {
    columns: columns.map((one) => {
      const column = new AgentValue(one, 'column')
      const [name, type] = [column.text('name'), column.text('type')]
      return { name: shown(name, CELL_MAX_CHARACTERS), type: shown(type, NAME_MAX_CHARACTERS) }
    }),
    rows: rows.map((one) => {
      const row = new AgentValue(one, 'row')
      const cells = row.list('cells')
      if (cells.length !== columns.length) row.fail()
      return { label: shown(row.text('label'), CELL_MAX_CHARACTERS), cells: cells.map(checkCell) }
    }),
    rowCount: table.count('rowCount'),
    matchCount: table.count('matchCount'),
    columnCount: table.count('columnCount'),
    ...(table.has('part') && { part: shown(table.text('part'), NAME_MAX_CHARACTERS) }),
  }
}

function checkCell(value: unknown): string | null {
  if (value === null) return null
  return typeof value === 'string' ? shown(value, CELL_MAX_CHARACTERS) : new AgentValue(value, 'cell').fail()
}

function checkImage(value: unknown): { png: string; width: number; height: number } {
  const image = new AgentValue(value, 'image')
  const png = image.text('png')
  if (png.length > PNG_MAX_CHARACTERS || !png.startsWith(PNG_BEGINS) || !BASE64.test(png)) image.fail()
  return { png, width: image.count('width'), height: image.count('height') }
}

/** One line that can be shown anywhere. */
function shown(text: string, maxCharacters: number): string {
  // The cut may have split a character.
  return text.slice(0, maxCharacters).replace(ACTING, '\ufffd').replace(HALF, '')
}
