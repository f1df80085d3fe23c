import { readFileSync } from 'node:fs'
import { DormouseError, hasErrorCode, parseInput } from '@dormouse/contracts'
import { type ConfigInput, configSchema } from './config-schema.ts'
import type { Env } from './env.ts'
import { SETTINGS, type Setting } from './settings.ts'

type Json = Record<string, unknown>

/** What `config.json` says; nothing when there is none. Its name is in every complaint. */
export function readConfigFile(path: string): ConfigInput {
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
  return parseLayer(json, path)
}

/** From the environment. An empty variable is one that is not set. */
export function envLayer(env: Env): ConfigInput {
  const layer: Json = {}
  for (const setting of SETTINGS) {
    const text = env[setting.env]
    if (text === undefined || text === '') continue
    put(layer, setting, parseLayerValue(setting, text, setting.env))
  }
  return layer
}

/** From the arguments of `dormouse up`: `--port 80` and `--port=80` alike. What is not understood is refused. */
export function flagLayer(args: readonly string[]): ConfigInput {
  const layer: Json = {}
  const rest = [...args]
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    const [flag = '', ...values] = arg.split('=')
    const setting = SETTINGS.find((known) => known.flag === flag)
    if (setting === undefined) throw usage(`"${arg}" is not understood here`)
    const isSwitch = setting.kind === 'boolean'
    const text = values.length > 0 ? values.join('=') : isSwitch ? 'true' : rest.shift()
    if (text === undefined || (!isSwitch && text.startsWith('--'))) throw usage(`${flag} needs a value`)
    put(layer, setting, parseLayerValue(setting, text, flag))
  }
  return layer
}

/** The later wins, field by field. */
export function mergeLayers(layers: readonly ConfigInput[]): ConfigInput {
  const merged: Json = {}
  for (const layer of layers) {
    for (const [name, value] of Object.entries(layer)) {
      merged[name] = isObject(value) && isObject(merged[name]) ? { ...merged[name], ...value } : value
    }
  }
  return merged
}

function parseLayer(value: unknown, what: string): ConfigInput {
  try {
    return parseInput(configSchema, value, what)
  } catch (error) {
    if (!hasErrorCode(error, 'invalid_argument')) throw error
    throw new DormouseError('invalid_argument', error.message, {
      hint: `The fields are ${Object.keys(configSchema.shape).join(', ')}; docs/configuration.md explains them.`,
      details: error.details,
      cause: error.cause,
    })
  }
}

/** One value alone, so that the complaint names where it came from. */
function parseLayerValue(setting: Setting, text: string, source: string): unknown {
  const value = convert(setting, text)
  const alone: Json = {}
  put(alone, setting, value)
  const parsed = configSchema.safeParse(alone)
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
  // Left as it is: the schema says what is expected instead.
  return text
}

function put(layer: Json, { path: [name, inner] }: Setting, value: unknown): void {
  if (inner === undefined) layer[name] = value
  else layer[name] = { ...(isObject(layer[name]) ? layer[name] : {}), [inner]: value }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null
}

function usage(message: string): DormouseError {
  const flags = SETTINGS.flatMap(({ flag }) => flag ?? []).join(', ')
  return new DormouseError('invalid_argument', message, { hint: `\`dormouse up\` takes ${flags}.` })
}
