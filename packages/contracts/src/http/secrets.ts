import { z } from 'zod'
import { allowRuleProblem, parseAllowRule } from '../allow-rule.ts'
import { SECRET_MIN_BYTES } from '../limits.ts'
import { withhold } from '../parse.ts'
import { booleanTextOr, pageOf, pageQuery, sandboxIdField, timestampField } from './fields.ts'

const NAME_MAX_CHARACTERS = 128
/** Signed tokens fit; more than this no server takes in a header. */
const VALUE_MAX_BYTES = 8 * 1024
const DOMAINS_MAX = 16
const DOMAIN_MAX_CHARACTERS = 255
/** All of them can be in one request. */
export const SECRETS_PER_SANDBOX_MAX = 32

/** What programs need to be themselves; a placeholder there would break every one of them. */
const TAKEN =
  /^(?:LD_.*|DORMOUSE_.*|PATH|HOME|USER|LOGNAME|SHELL|PWD|LANG|LC_.*|TERM|TMPDIR|PYTHON(?:PATH|HOME|STARTUP)|IFS|ENV|BASH_ENV|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|GIT_SSL_CAINFO|PIP_CERT)$/

export const secretNameField = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and "_"')
  .max(NAME_MAX_CHARACTERS)
  .refine((name) => !TAKEN.test(name), 'is a variable that programs need for something else')
  .describe('Also the name of the environment variable that has the placeholder.')

/** Printable ASCII: what a header can have, so that no value can begin another one. */
const valueField = z
  .string()
  .min(
    SECRET_MIN_BYTES,
    `must have at least ${SECRET_MIN_BYTES} characters: a shorter one could be found by trying`,
  )
  .max(VALUE_MAX_BYTES)
  .regex(/^[\x20-\x7e]*$/, 'must be printable ASCII, without line breaks')
  .refine((value) => value.trim() === value, 'must not begin or end with a space')
  .describe('Goes into requests to `domains` in place of the placeholder. No answer ever shows it again.')

const domainField = z
  .string()
  .max(DOMAIN_MAX_CHARACTERS)
  .superRefine((text, context) => {
    const problem = domainProblem(text)
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem })
  })
  .transform((text) => text.toLowerCase().replace(/\.$/, ''))
  .meta({ type: 'string', maxLength: DOMAIN_MAX_CHARACTERS })

const domainsField = z
  .array(domainField)
  .min(1)
  .max(DOMAINS_MAX)
  .describe('Host names that it is sent to, over HTTPS; `*.` for all below one. No other host ever gets it.')

export const createSecretSchema = z
  .strictObject({ name: secretNameField, value: valueField, domains: domainsField })
  .meta({
    id: 'CreateSecret',
    examples: [{ name: 'OPENAI_API_KEY', value: 'sk-12345678', domains: ['api.openai.com'] }],
  })

export const updateSecretSchema = z
  .strictObject({ value: valueField.exactOptional(), domains: domainsField.exactOptional() })
  .refine((change) => Object.keys(change).length > 0, { error: 'names nothing to change' })
  .meta({ id: 'UpdateSecret', examples: [{ value: 'sk-87654321' }] })

export const secretSchema = z
  .strictObject({
    name: z.string(),
    placeholder: z
      .string()
      .describe('What sandboxes have instead of the value. Stays the same when the value changes.'),
    domains: z.array(z.string()).readonly(),
    createdAt: timestampField,
    updatedAt: timestampField,
    usedBy: z.array(sandboxIdField).readonly().describe('Sandboxes that have it.'),
  })
  .meta({
    id: 'Secret',
    examples: [
      {
        name: 'OPENAI_API_KEY',
        placeholder: 'dormouse-secret-k3v9x2m4p7q8r5t6k3v9x2m4',
        domains: ['api.openai.com'],
        createdAt: '2026-01-01T12:00:00.000Z',
        updatedAt: '2026-01-01T12:00:00.000Z',
        usedBy: ['sb-k3v9x2m4p7q8r5t6'],
      },
    ],
  })

export const secretPageSchema = pageOf(secretSchema).meta({ id: 'SecretPage' })
export const listSecretsQuery = z.strictObject(pageQuery)
export const secretParams = z.strictObject({ name: secretNameField })
export const deleteSecretQuery = z.strictObject({
  force: booleanTextOr(false).describe('Takes it from the sandboxes that have it first.'),
})

/** Of a sandbox: names of secrets. */
export const sandboxSecretsField = z
  .array(secretNameField)
  .max(SECRETS_PER_SANDBOX_MAX)
  .refine((names) => new Set(names).size === names.length, 'must not name one twice')

withhold(createSecretSchema)
withhold(updateSecretSchema)

export type CreateSecretBody = z.input<typeof createSecretSchema>
export type UpdateSecretBody = z.input<typeof updateSecretSchema>
export type SecretAnswer = z.output<typeof secretSchema>
export type SecretPageAnswer = z.output<typeof secretPageSchema>

function domainProblem(text: string): string | undefined {
  const isRule = allowRuleProblem(text) === undefined
  const rule = isRule ? parseAllowRule(text) : undefined
  if (rule === undefined || !('domain' in rule) || rule.ports !== undefined)
    return 'must be a host name: `api.example.com`, or `*.example.com` for all below it'
  return /^\*\.[^.]+$/.test(rule.domain) ? 'must not be for all of a top-level domain' : undefined
}
