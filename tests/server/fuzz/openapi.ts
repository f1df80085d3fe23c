import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked at as one
export type Json = any

export interface Operation {
  readonly id: string
  readonly method: string
  /** With `{name}` where parameters go. */
  readonly path: string
  readonly scope: 'open' | 'read' | 'run' | 'admin'
  readonly parameters: readonly Json[]
  readonly bodyType: string | undefined
  readonly bodySchema: Json
  readonly responses: Json
}

const HTTP_METHODS = ['get', 'put', 'post', 'patch', 'delete']

/** The OpenAPI document of a server, as a source of requests and a judge of answers. */
export class OpenApi {
  readonly operations: readonly Operation[]
  readonly #document: Json
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true })
  readonly #validators = new Map<string, ValidateFunction>()

  constructor(document: Json) {
    this.#document = document
    formats.default(this.#ajv)
    this.#ajv.addSchema(document, 'openapi')
    this.operations = Object.entries<Json>(document.paths).flatMap(([path, item]) =>
      HTTP_METHODS.filter((method) => item[method] !== undefined).map((method) =>
        operationOf(path, method, item[method]),
      ),
    )
  }

  resolve(schema: Json): Json {
    return schema?.$ref === undefined
      ? schema
      : { ...this.#at(pointer(schema.$ref)), ...schema, $ref: undefined }
  }

  /**
   * What is wrong with a value that an operation answered with, in the words of the validator; undefined when nothing
   * is.
   */
  faultOf(operation: Operation, status: number, type: string, value: unknown): string | undefined {
    const path = [
      'paths',
      operation.path,
      operation.method,
      'responses',
      String(status),
      'content',
      type,
      'schema',
    ]
    return this.#fault(path, value)
  }

  faultOfError(value: unknown): string | undefined {
    return this.#fault(['components', 'schemas', 'Error'], value)
  }

  #fault(path: string[], value: unknown): string | undefined {
    if (this.#at(path) === undefined) return `the document says nothing of ${path.join(' ')}`
    const id = `openapi#/${path.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`
    const validate = this.#validators.get(id) ?? this.#ajv.compile({ $ref: id })
    this.#validators.set(id, validate)
    return validate(value) ? undefined : this.#ajv.errorsText(validate.errors)
  }

  #at(path: readonly string[]): Json {
    return path.reduce((node, part) => node?.[part], this.#document)
  }
}

function pointer(ref: string): string[] {
  return ref.slice('#/'.length).split('/')
}

function operationOf(path: string, method: string, item: Json): Operation {
  const [bodyType] = Object.keys(item.requestBody?.content ?? {})
  return {
    ...{ id: item.operationId, method, path, scope: item['x-scope'], responses: item.responses },
    parameters: item.parameters ?? [],
    bodyType,
    bodySchema: bodyType === undefined ? undefined : item.requestBody.content[bodyType].schema,
  }
}
