"""Search without a server: the theme's script for pages that are opened as files comes with the site, not from the internet."""

SHIM = "https://unpkg.com/iframe-worker/shim"


def on_post_page(output, page, config):
    return output.replace(SHIM, "../" * page.url.count("/") + "iframe-worker.js")
