import { optional } from '../setting.ts'
import { absolutePath } from '../value-schemas.ts'

/** Where container images come from. */
export const imageSettings = {
  images: {
    registriesConf: optional(absolutePath, {
      env: 'DORMOUSE_REGISTRIES_CONF',
      summary: 'A registries.conf with mirrors and insecure registries, in the format of skopeo and Podman.',
      details:
        'Without it, the file of the host (`/etc/containers/registries.conf`) applies. Keys without the scope `admin` ' +
        'can pull from a registry at a private address only if this file lists it.',
    }),
  },
}
