import { z } from 'zod'
import { allowRuleProblem, parseAllowRule } from '../allow-rule.ts'
import { SECRET_MIN_BYTES } from '../limits.ts'
import { withhold } from '../parse.ts'
import { booleanTextOr, pageOf, pageQuery, sandboxIdField, timestampField } from './fields.ts'

const NAME_MAX_CHARACTERS = 128
/** Enough for signed tokens. Servers do not accept longer headers. */
const VALUE_MAX_BYTES = 8 * 1024
const DOMAINS_MAX = 16
const DOMAIN_MAX_CHARACTERS = 255
/** One request may carry all of them. */
const SECRETS_PER_SANDBOX_MAX = 32

/** Variables that programs need: a placeholder in one of these would break them. */
const RESERVED =
  /^(?:LD_.*|DORMOUSE_.*|PATH|HOME|USER|LOGNAME|SHELL|PWD|LANG|LC_.*|TERM|TMPDIR|PYTHON(?:PATH|HOME|STARTUP)|IFS|ENV|BASH_ENV|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|GIT_SSL_CAINFO|PIP_CERT)$/

const secretNameField = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be a name of letters, digits and "_"')
  .max(NAME_MAX_CHARACTERS)
  .refine((name) => !RESERVED.test(name), 'is a variable that programs need for something else')
  .describe('Also the name of the environment variable that holds the placeholder.')

/** Printable ASCII, so that a value fits into a header and cannot begin another header. */
const valueField = z
  .string()
  .min(SECRET_MIN_BYTES, `must have at least ${SECRET_MIN_BYTES} characters: a shorter one could be guessed`)
  .max(VALUE_MAX_BYTES)
  .regex(/^[\x20-\x7e]*$/, 'must be printable ASCII, without line breaks')
  .refine((value) => value.trim() === value, 'must not begin or end with a space')
  .describe('Replaces the placeholder in requests to `domains`. No response ever contains it.')

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
  .describe(
    'Host names that receive the value, over HTTPS only; `*.` for all subdomains. No other host receives it.',
  )

export const createSecretSchema = z
  .strictObject({ name: secretNameField, value: valueField, domains: domainsField })
  .meta({
    id: 'CreateSecret',
    examples: [{ name: 'OPENAI_API_KEY', value: 'sk-12345678', domains: ['api.openai.com'] }],
  })

export const updateSecretSchema = z
  .strictObject({ value: valueField.exactOptional(), domains: domainsField.exactOptional() })
  .refine((change) => Object.keys(change).length > 0, { error: 'must name at least one field to change' })
  .meta({ id: 'UpdateSecret', examples: [{ value: 'sk-87654321' }] })

export const secretSchema = z
  .strictObject({
    name: z.string(),
    placeholder: z
      .string()
      .describe(
        'What code inside sandboxes sees instead of the value. It stays the same when the value changes.',
      ),
    domains: z.array(z.string()).readonly(),
    createdAt: timestampField,
    updatedAt: timestampField,
    usedBy: z.array(sandboxIdField).readonly().describe('Sandboxes that use the secret.'),
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
  force: booleanTextOr(false).describe('Also remove the secret from sandboxes that use it.'),
})

/** The names of the secrets of a sandbox. */
export const sandboxSecretsField = z
  .array(secretNameField)
  .max(SECRETS_PER_SANDBOX_MAX)
  .refine((names) => new Set(names).size === names.length, 'must not contain a name twice')

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
    return 'must be a host name: `api.example.com`, or `*.example.com` for all subdomains'
  return /^\*\.[^.]+$/.test(rule.domain) ? 'must not cover a whole top-level domain' : undefined
}
