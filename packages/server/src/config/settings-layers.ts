import { readFileSync } from 'node:fs'
import { DormouseError, hasErrorCode, parseInput } from '@dormouse/contracts'
import type { NamedSetting, Setting } from './setting.ts'
import { ALL_SETTINGS, SETTINGS, type SettingsInput, settingsSchema } from './settings.ts'

type Json = Record<string, unknown>
type TextValues = Readonly<Record<string, string | undefined>>

/** Reads `config.json`; a missing file is an empty layer. Errors name the file. */
export function readFileLayer(path: string): SettingsInput {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return {}
    throw new DormouseError('invalid_argument', `${path} cannot be read`, { cause })
  }
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new DormouseError('invalid_argument', `${path} is not JSON: ${reason}`, {
      hint: 'JSON has no comments and no trailing commas.',
      cause,
    })
  }
  return checkLayer(json, path)
}

/** Settings from environment variables. An empty variable counts as unset. */
export function envLayer(env: TextValues): SettingsInput {
  return textLayer(({ description }) => description.env, env)
}

/** Settings from flags of `dormouse up`, such as `{ '--port': '80' }`. Unknown flags are refused. */
export function flagLayer(flags: TextValues): SettingsInput {
  const known = ALL_SETTINGS.flatMap(({ setting }) => setting.description.flag ?? [])
  const unknown = Object.keys(flags).find((flag) => !known.includes(flag))
  if (unknown !== undefined)
    throw new DormouseError('invalid_argument', `"${unknown}" is not a flag of \`dormouse up\``, {
      hint: `\`dormouse up\` takes ${known.join(', ')}.`,
    })
  return textLayer(({ description }) => description.flag, flags)
}

/** Later layers win, field by field. */
export function mergeLayers(layers: readonly SettingsInput[]): SettingsInput {
  const merged: Json = {}
  for (const layer of layers) {
    for (const [name, value] of Object.entries(layer)) {
      merged[name] = isObject(value) && isObject(merged[name]) ? { ...merged[name], ...value } : value
    }
  }
  return merged
}

/** `nameOf` says under which name `values` holds a setting. */
function textLayer(nameOf: (setting: Setting) => string | undefined, values: TextValues): SettingsInput {
  const layer: Json = {}
  for (const named of ALL_SETTINGS) {
    const source = nameOf(named.setting)
    const text = source === undefined ? undefined : values[source]
    if (source === undefined || text === undefined || text === '') continue
    put(layer, named, parseValue(named, text, source))
  }
  return layer
}

function checkLayer(value: unknown, source: string): SettingsInput {
  try {
    return parseInput(settingsSchema, value, source)
  } catch (error) {
    if (!hasErrorCode(error, 'invalid_argument')) throw error
    throw new DormouseError('invalid_argument', error.message, {
      hint: `The fields are ${Object.keys(SETTINGS).join(', ')}; docs/configuration.md explains them.`,
      details: error.details,
      cause: error.cause,
    })
  }
}

/** Checks one value alone, so that the error can name its variable or flag. */
function parseValue({ setting }: NamedSetting, text: string, source: string): unknown {
  const value = convert(setting, text)
  const parsed = setting.schema.safeParse(value)
  if (parsed.success) return value
  const reason = parsed.error.issues[0]?.message ?? 'is not valid'
  throw new DormouseError('invalid_argument', `${source}: ${reason} (saw "${text}")`, {
    hint: 'See docs/configuration.md.',
    details: { field: source },
  })
}

function convert({ kind }: Setting, text: string): unknown {
  if (kind === 'number' && /^\d+(\.\d+)?$/.test(text)) return Number(text)
  if (kind === 'boolean' && ['1', 'true', 'yes'].includes(text)) return true
  if (kind === 'boolean' && ['0', 'false', 'no'].includes(text)) return false
  if (kind === 'list') return text.split(',').map((word) => word.trim())
  // The schema refuses what is left with a message that says what it expects.
  return text
}

function put(layer: Json, { path: [name, inner] }: NamedSetting, value: unknown): void {
  if (inner === undefined) layer[name] = value
  else layer[name] = { ...(isObject(layer[name]) ? layer[name] : {}), [inner]: value }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null
}
