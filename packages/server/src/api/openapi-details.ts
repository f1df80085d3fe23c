import { ERRORS, type ErrorCode } from '@dormouse/contracts'

/** Additions that the OpenAPI generator cannot know. */

// The generator's own types mix 3.0 and 3.1; a validator checks the finished document instead.
type Json = { [key: string]: unknown }

const METHODS = ['get', 'put', 'post', 'delete', 'patch', 'head']

export function describeOperations(document: object): Json {
  const { paths, ...rest } = document as { paths: Record<string, Record<string, Json>> }
  for (const path of Object.values(paths)) {
    for (const method of METHODS) {
      const operation = path[method]
      if (operation === undefined) continue
      describeErrors(operation)
      describeBody(operation)
      for (const parameter of (operation['parameters'] as Json[] | undefined) ?? [])
        describeParameter(parameter)
    }
  }
  return { ...rest, paths }
}

function describeErrors(operation: Json): void {
  const codes = (operation['x-error-codes'] as ErrorCode[] | undefined) ?? []
  delete operation['x-error-codes']
  const scope = operation['x-scope']
  if (scope !== 'open') {
    const needed = `Needs a key with the scope \`${scope}\`.`
    operation['description'] =
      operation['description'] === undefined ? needed : `${operation['description']} ${needed}`
  }
  const responses = operation['responses'] as Record<string, Json>
  for (const code of codes) {
    const { status, hint, retry } = ERRORS[code]
    const response = responses[status] ?? { description: '', content: errorContent() }
    responses[status] = response
    const line = `\`${code}\`: ${hint}`
    response['description'] = response['description'] === '' ? line : `${response['description']}\n\n${line}`
    if (retry && (status === 429 || status === 503)) {
      response['headers'] = { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } }
    }
  }
  for (const response of Object.values(responses)) {
    // The generator writes a null body for answers without one.
    if (response['content'] !== undefined && isNothing(response['content'] as Json))
      delete response['content']
    response['headers'] = {
      'X-Request-Id': { $ref: '#/components/headers/RequestId' },
      ...(response['headers'] as Json | undefined),
    }
  }
}

function isNothing(content: Json): boolean {
  return (content['application/json'] as { schema?: Json } | undefined)?.schema?.['type'] === 'null'
}

function errorContent(): Json {
  return { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }
}

function describeBody(operation: Json): void {
  const body = operation['requestBody'] as { required: boolean } | undefined
  if (body !== undefined) body.required = operation['x-body-optional'] !== true
  delete operation['x-body-optional']
}

/** Objects in a query are written `name[key]=value`; the default of OpenAPI would be `key=value`. */
function describeParameter(parameter: Json): void {
  const schema = parameter['schema'] as Json | undefined
  if (parameter['in'] === 'query' && schema?.['type'] === 'object') {
    parameter['style'] = 'deepObject'
    parameter['explode'] = true
  }
}

const REFERENCE = /"#\/components\/schemas\/([^"/]+)"/g

/**
 * The generator writes every schema twice, as output and, as `…Input`, as input. Keeps the used ones, under the plain
 * name where only one is used.
 */
export function tidySchemas(document: Json): Json {
  const components = document['components'] as { schemas: Record<string, unknown> }
  const used = new Set<string>()
  const visit = (node: unknown): void => {
    for (const [, name = ''] of JSON.stringify(node).matchAll(REFERENCE)) {
      if (used.has(name)) continue
      used.add(name)
      visit(components.schemas[name])
    }
  }
  visit(document['paths'])
  const plainName = (name: string) => {
    const plain = name.replace(/Input$/, '')
    return used.has(plain) ? name : plain
  }
  const kept = Object.entries(components.schemas).filter(([name]) => used.has(name))
  const schemas = Object.fromEntries(kept.map(([name, schema]) => [plainName(name), schema]))
  const text = JSON.stringify({ ...document, components: { ...components, schemas } })
  return JSON.parse(text.replace(REFERENCE, (_, name: string) => `"#/components/schemas/${plainName(name)}"`))
}
