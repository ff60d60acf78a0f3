"""Read the package sources of this host in pip's configuration, and convert them for uv.

uv gets the values in environment variables: an index's URL may contain a password, and other users can read arguments.
"""

import configparser
import os
import re
from typing import Callable, Dict, List, Mapping

_IGNORED_URL = re.compile(r"//[^/@\s]+@")


def read(environment: Mapping[str, str], prefix: str, load: Callable[[str], str]) -> Dict[str, str]:
    """Return the options that `pip install` would use here.

    Args:
        environment: Environment variables.
        prefix: `sys.prefix` of the Python that pip belongs to.
        load: Returns a file's text, or an empty string if the file is missing.

    Returns:
        Options by their long name, such as `index-url`.
    """
    by_section: Dict[str, Dict[str, str]] = {"global": {}, "install": {}}
    for path in list_files(environment, prefix, load):
        for section, options in parse(load(path)).items():
            by_section.setdefault(section, {}).update(options)
    options = dict(by_section["global"], **by_section["install"])
    options.update(_variables(environment))
    return options


def list_files(environment: Mapping[str, str], prefix: str, load: Callable[[str], str]) -> List[str]:
    """List pip's configuration files; later ones take precedence."""
    named = environment.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    home = environment.get("HOME", "")
    global_folders = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    found = [os.path.join(folder, "pip", "pip.conf") for folder in reversed(global_folders) if folder]
    found.append("/etc/pip.conf")
    if home and not (named and load(named)):  # a file named by the variable replaces the user's own
        own = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        found += [os.path.join(home, ".pip", "pip.conf"), os.path.join(own, "pip", "pip.conf")]
    found.append(os.path.join(prefix, "pip.conf"))
    return found + ([named] if named else [])


def parse(text: str) -> Dict[str, Dict[str, str]]:
    """Parse a pip.conf. A damaged one counts as empty, as pip would not start with it either."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    return {section: {_name(key): value for key, value in parser.items(section)} for section in parser.sections()}


def translate(
    options: Mapping[str, str], environment: Mapping[str, str], exists: Callable[[str], bool]
) -> Dict[str, str]:
    """Convert pip's options to uv's environment variables.

    Args:
        options: The result of `read`.
        environment: Environment variables, which may name a certificate for all programs.
        exists: Returns whether a local path exists: pip ignores missing folders of wheels, uv refuses them.
    """
    said = {}
    if options.get("index-url"):
        said["UV_DEFAULT_INDEX"] = options["index-url"]
    extra = options.get("extra-index-url", "").split()
    if extra:
        # pip looks for the best version on every index; uv would stop at the first that has the package.
        said.update(UV_INDEX=" ".join(extra), UV_INDEX_STRATEGY="unsafe-best-match")
    links = [link for link in options.get("find-links", "").split() if _is_url(link) or exists(link)]
    if links:
        said["UV_FIND_LINKS"] = ",".join(os.path.expanduser(link) for link in links)
    if _is_true(options.get("no-index", "")):
        said["UV_NO_INDEX"] = "1"
    if options.get("trusted-host", "").split():
        said["UV_INSECURE_HOST"] = " ".join(options["trusted-host"].split())
    if options.get("constraint", "").split():
        said["UV_CONSTRAINT"] = " ".join(options["constraint"].split())
    certificate = options.get("cert") or environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
    if certificate and not (options.get("cert") is None and environment.get("SSL_CERT_FILE")):
        said["SSL_CERT_FILE"] = os.path.expanduser(certificate)
    if options.get("client-cert"):
        said["SSL_CLIENT_CERT"] = os.path.expanduser(options["client-cert"])
    timeout = options.get("timeout") or options.get("default-timeout") or ""
    if re.fullmatch(r"\d+(\.\d+)?", timeout):
        said["UV_HTTP_TIMEOUT"] = str(max(1, round(float(timeout))))
    if options.get("proxy"):
        proxy = options["proxy"] if "://" in options["proxy"] else "http://" + options["proxy"]
        said.update(HTTP_PROXY=proxy, HTTPS_PROXY=proxy, ALL_PROXY=proxy)
    return said


def hide_passwords(text: str) -> str:
    """Remove user names and passwords from the URLs in a text."""
    return _IGNORED_URL.sub("//****@", text)


def _variables(environment: Mapping[str, str]) -> Dict[str, str]:
    given = {_name(key[4:]): value for key, value in environment.items() if key.startswith("PIP_") and value}
    given.pop("config-file", None)
    return given


def _name(key: str) -> str:
    return key.lower().replace("_", "-").lstrip("-")


def _is_url(link: str) -> bool:
    return "://" in link or link.startswith("file:")


def _is_true(text: str) -> bool:
    return text.strip().lower() in ("1", "true", "yes", "on", "y", "t")
